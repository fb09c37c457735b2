// An authorization server of npm's oidc-provider, with its pages for development: any name and password sign in.
//
// Usage: oidc_provider.mjs PORT RESOURCE FORMAT. It registers clients, and issues tokens for the resource alone, of the
// format "jwt" or "opaque". Prints a line when it listens.

import Provider, { errors } from 'oidc-provider';

const [port, resource, format] = process.argv.slice(2);
const scopes = 'read write';

const provider = new Provider(`http://127.0.0.1:${port}`, {
  scopes: ['openid', 'offline_access', 'read', 'write'],
  clients: [{
    client_id: 'robot', client_secret: 'a secret of the robot', grant_types: ['client_credentials'],
    token_endpoint_auth_method: 'client_secret_basic', redirect_uris: [], response_types: [], scope: scopes,
  }],
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: true },
    introspection: { enabled: true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo(context, indicator) {
        if (indicator !== resource) throw new errors.InvalidTarget();
        return { scope: scopes, audience: resource, accessTokenFormat: format };
      },
    },
  },
  clientDefaults: { token_endpoint_auth_method: 'none' },
});

provider.listen(Number(port), '127.0.0.1', () => console.log('listens'));
