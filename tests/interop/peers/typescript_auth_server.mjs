// A server of the TypeScript SDK, 1.x or 2.x, that takes the tokens of an authorization server.
//
// Usage: typescript_auth_server.mjs ISSUER INTROSPECTION: the server that issues tokens, and where it tells what one is
// for. It listens at the port in the variable PORT. 2.x has a tool that needs a scope of its own.

import { z } from 'zod';
import { listen, toRequest, toResponse, withSessions } from './typescript_web.mjs';

const [issuer, introspection] = process.argv.slice(2);
const resource = new URL(`http://127.0.0.1:${process.env.PORT}/mcp`);
const identity = { name: 'interop', version: '0' };
const text = (value) => ({ content: [{ type: 'text', text: value }] });

// What the SDK wants to know of a token; `Refused` is its error.
const verifierWith = (Refused) => ({
  async verifyAccessToken(token) {
    const answer = await fetch(introspection, { method: 'POST', body: new URLSearchParams({ token }) });
    const said = await answer.json();
    if (!said.active) throw new Refused();
    return {
      token, clientId: said.client_id, scopes: said.scope.split(' '), expiresAt: said.exp,
      resource: new URL(said.aud), extra: { subject: said.sub },
    };
  },
});

const asMetadata = async () => (await fetch(`${issuer}/.well-known/oauth-authorization-server`)).json();

async function serve1() {
  const { McpServer } = await import('@modelcontextprotocol/sdk/server/mcp.js');
  const { StreamableHTTPServerTransport } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js');
  const { InvalidTokenError } = await import('@modelcontextprotocol/sdk/server/auth/errors.js');
  const { requireBearerAuth } = await import('@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js');
  const router = await import('@modelcontextprotocol/sdk/server/auth/router.js');
  const { default: express } = await import('express');
  class Refused extends InvalidTokenError {
    constructor() {
      super('the token is not valid');
    }
  }
  const serve = withSessions(() => {
    const server = new McpServer(identity);
    server.registerTool('whoami', { inputSchema: {} }, (args, extra) => text(extra.authInfo.extra.subject));
    return server;
  }, StreamableHTTPServerTransport);
  const app = express();
  app.use(router.mcpAuthMetadataRouter({
    oauthMetadata: await asMetadata(), resourceServerUrl: resource, scopesSupported: ['read'],
  }));
  app.use('/mcp', requireBearerAuth({
    verifier: verifierWith(Refused), requiredScopes: ['read'], expectedResource: resource,
    resourceMetadataUrl: router.getOAuthProtectedResourceMetadataUrl(resource),
  }));
  app.all('/mcp', (request, response) =>
    serve(request.headers['mcp-session-id'], (transport) => transport.handleRequest(request, response)));
  app.listen(Number(process.env.PORT), '127.0.0.1');
}

async function serve2(sdk) {
  class Refused extends sdk.OAuthError {
    constructor() {
      super(sdk.OAuthErrorCode.InvalidToken, 'the token is not valid');
    }
  }
  const make = () => {
    const server = new sdk.McpServer(identity);
    const inputSchema = z.object({});
    server.registerTool('whoami', { inputSchema }, (args, context) => text(context.http.authInfo.extra.subject));
    server.registerTool('write', { inputSchema, scopeChallenge: sdk.requireScopes('write') }, () => text('written'));
    return server;
  };
  const published = {
    oauthMetadata: await asMetadata(), resourceServerUrl: resource, scopesSupported: ['read', 'write'],
    dangerouslyAllowInsecureIssuerUrl: true,
  };
  const gate = sdk.requireBearerAuth({
    verifier: verifierWith(Refused), requiredScopes: ['read'], expectedResource: resource,
    resourceMetadataUrl: sdk.getOAuthProtectedResourceMetadataUrl(resource),
  });
  const older = withSessions(make, sdk.WebStandardStreamableHTTPServerTransport);
  const modern = sdk.createMcpHandler(make, { legacy: 'reject' });
  const answer = async (request) => {
    const document = sdk.oauthMetadataResponse(request, published);
    if (document) return document;
    const authInfo = await gate(request);
    if (authInfo instanceof Response) return authInfo;
    const id = request.headers.get('mcp-session-id');
    const legacy = await sdk.isLegacyRequest(request);
    return legacy
      ? older(id, (transport) => transport.handleRequest(request, { authInfo }))
      : modern.fetch(request, { authInfo });
  };
  listen(async (incoming, outgoing) => toResponse(await answer(toRequest(incoming, outgoing)), outgoing));
}

const version2 = await import('@modelcontextprotocol/server').catch(() => null);
await (version2 === null ? serve1() : serve2(version2));
