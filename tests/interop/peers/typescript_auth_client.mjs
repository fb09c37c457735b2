// A client of the TypeScript SDK, 1.x or 2.x, signs in to a protected server, calls a tool, and steps up for another.
//
// Usage: typescript_auth_client.mjs URL. Prints one JSON object: for each check, true or what went wrong.

const version2 = await import('@modelcontextprotocol/client').catch(() => null);
const { Client } = version2 ?? (await import('@modelcontextprotocol/sdk/client/index.js'));
const { StreamableHTTPClientTransport } = version2 ?? (await import('@modelcontextprotocol/sdk/client/streamableHttp.js'));
const { UnauthorizedError } = version2 ?? (await import('@modelcontextprotocol/sdk/client/auth.js'));

const url = new URL(process.argv[2]);
let came;

// What the SDK stores; and the page where the person agrees.
const kept = {
  redirectUrl: 'http://127.0.0.1:1/callback',
  clientMetadata: { redirect_uris: ['http://127.0.0.1:1/callback'], token_endpoint_auth_method: 'none' },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client; },
  tokens: () => kept.token,
  // 1.x refreshes the token where it should ask for more scopes, and then gives up: it gets nothing to refresh by.
  saveTokens: (token) => { kept.token = version2 ? token : { ...token, refresh_token: undefined }; },
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  state: () => 'a-state',
  async redirectToAuthorization(page) {
    const answer = await fetch(page, { redirect: 'manual' });
    came = new URL(answer.headers.get('location')).searchParams;
  },
};

const makeTransport = () => new StreamableHTTPClientTransport(url, { authProvider: kept });

// Do something that may need the person, and once more when they have agreed.
async function signingIn(transport, work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    await (version2 ? transport.finishAuth(came) : transport.finishAuth(came.get('code')));
    return work();
  }
}

let transport = makeTransport();
let client;
await signingIn(transport, async () => {
  client = new Client({ name: 'peer', version: '1' });
  transport = makeTransport();
  await client.connect(transport);
});
const told = {};
const first = await client.callTool({ name: 'whoami', arguments: {} });
told['signs in'] = first.content[0].text === 'ada' || JSON.stringify(first);
const token = kept.token.access_token;
const second = await signingIn(transport, () => client.callTool({ name: 'write', arguments: {} }));
told['steps up'] = second.content[0].text === 'written' || JSON.stringify(second);
told['by a token with more scopes'] = kept.token.access_token !== token || 'the token is the same';
await client.close();
console.log(JSON.stringify(told));
