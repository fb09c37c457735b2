// The shared checks by a client of the TypeScript SDK: 1.x, or 2.x where that is installed.
//
// Usage: typescript_client.mjs REVISION COMMAND... (or URL) where REVISION is a revision or "auto" (2.x only). Prints
// one JSON object: the revision in use and, for each check, true or what went wrong.

import assert from 'node:assert/strict';
import { z } from 'zod';
import { codeOf, everything, features, same } from './typescript_feature_checks.mjs';
import { CAPABILITIES, Host } from './typescript_host.mjs';

const HANDSHAKE = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'];
const TOOLS = [
  'echo', 'add', 'weather', 'count', 'fail', 'slow', 'cancellations', 'image', 'note', 'release', 'mixed', 'logs', 'touch',
  'grow', 'shrink', 'ask_form', 'ask_url', 'ask_model', 'ask_tools', 'ask_roots', 'ask_many', 'ask_twice', 'need_url',
  'ask_choices',
];
const UNICODE = 'Grüße, 世界 \u{1F600} \u2028 \x7f end';
const PARALLEL = 20;
const SECONDS_PER_CHECK = 15;

const version2 = await import('@modelcontextprotocol/client').catch(() => null);

// The class of the SDK that opens a command or a URL, and what it is told.
function transportTo(command, Stdio, Http, Sse) {
  if (!command[0].startsWith('http')) return [Stdio, { command: command[0], args: command.slice(1), stderr: 'inherit' }];
  return [command[0].endsWith('/sse') ? Sse : Http, new URL(command[0])];
}

async function open1(revision, command) {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const { SSEClientTransport } = await import('@modelcontextprotocol/sdk/client/sse.js');
  const types = await import('@modelcontextprotocol/sdk/types.js');

  // This version always offers the newest revision: let the transport offer another.
  const offering = (Transport) => class extends Transport {
    send(message, ...options) {
      const { method, params } = message;
      const changed = { ...message, params: { ...params, protocolVersion: revision } };
      return super.send(method === 'initialize' ? changed : message, ...options);
    }
    setProtocolVersion(agreed) {
      this.agreed = agreed;
      super.setProtocolVersion?.(agreed);
    }
  };

  const client = new Client({ name: 'interop-client', version: '0' }, { capabilities: CAPABILITIES });
  const schemas = {
    'sampling/createMessage': types.CreateMessageRequestSchema,
    'elicitation/create': types.ElicitRequestSchema,
    'roots/list': types.ListRootsRequestSchema,
    'notifications/message': types.LoggingMessageNotificationSchema,
    'notifications/tools/list_changed': types.ToolListChangedNotificationSchema,
    'notifications/prompts/list_changed': types.PromptListChangedNotificationSchema,
    'notifications/resources/list_changed': types.ResourceListChangedNotificationSchema,
    'notifications/resources/updated': types.ResourceUpdatedNotificationSchema,
    'notifications/elicitation/complete': types.ElicitationCompleteNotificationSchema,
  };
  const host = new Host();
  host.attach((method, handler) => client.setRequestHandler(schemas[method], handler),
    (method, handler) => client.setNotificationHandler(schemas[method], handler));
  const [Transport, target] = transportTo(command, StdioClientTransport, StreamableHTTPClientTransport, SSEClientTransport);
  const transport = new (offering(Transport))(target);
  await client.connect(transport);
  const call = (name, args = {}, options = {}) => client.callTool({ name, arguments: args }, undefined, options);
  return {
    client, host, call, modern: false, gathers: false, revision: transport.agreed,
    logs: async (level) => {
      await client.setLoggingLevel(level);
      await call('logs');
    },
  };
}

async function open2(revision, command) {
  const { Client } = version2;
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  const legacy = HANDSHAKE.includes(revision);
  const mode = legacy ? 'legacy' : revision === 'auto' ? 'auto' : { pin: revision };
  const client = new Client({ name: 'interop-client', version: '0' }, {
    capabilities: CAPABILITIES, versionNegotiation: { mode }, ...(legacy ? { supportedProtocolVersions: [revision] } : {}),
  });
  const host = new Host();
  host.attach((method, handler) => client.setRequestHandler(method, handler),
    (method, handler) => client.setNotificationHandler(method, handler));
  const { StreamableHTTPClientTransport, SSEClientTransport } = version2;
  const [Transport, target] = transportTo(command, StdioClientTransport, StreamableHTTPClientTransport, SSEClientTransport);
  await client.connect(new Transport(target));
  const agreed = client.getNegotiatedProtocolVersion();
  const modern = !HANDSHAKE.includes(agreed);
  const metaOf = (level) => (modern ? { 'io.modelcontextprotocol/logLevel': level } : {});
  return {
    client, host, modern, ResourceNotFoundError: version2.ResourceNotFoundError, gathers: true, revision: agreed, refresh: { cacheMode: 'refresh' },
    call: (name, args = {}, options = {}) => client.callTool({ name, arguments: args, _meta: metaOf('debug') }, options),
    logs: async (level) => {
      if (!modern) await client.setLoggingLevel(level);
      await client.callTool({ name: 'logs', _meta: metaOf(level) });
    },
  };
}

const first = (result) => result.content[0].text;
const hasStructured = ({ revision }) => !['2024-11-05', '2025-03-26'].includes(revision);

const checks = {
  async list(peer) {
    const tools = await everything(peer, 'listTools');
    same(tools.map((tool) => tool.name).sort(), [...TOOLS].sort());
    const { inputSchema } = tools.find((tool) => tool.name === 'echo');
    same(inputSchema.properties.text.type, 'string');
    same(inputSchema.required, ['text']);
  },
  async echo({ call }) {
    same(first(await call('echo', { text: UNICODE })), UNICODE);
  },
  async add(peer) {
    const result = await peer.call('add', { a: 19, b: 23 });
    same(first(result), '42');
    const wanted = peer.modern ? 42 : hasStructured(peer) ? { result: 42 } : undefined;
    same(result.structuredContent, wanted);
  },
  async record(peer) {
    const result = await peer.call('weather', { city: 'Tromsø' });
    const record = { place: { city: 'Tromsø', tags: ['å', 'b'] }, degrees: 21.5 };
    same(JSON.parse(first(result)), record);
    same(result.structuredContent, hasStructured(peer) ? record : undefined);
  },
  async progress({ call }) {
    const seen = [];
    const onprogress = ({ progress, total }) => void seen.push([progress, total]);
    same(first(await call('count', { n: 25 }, { onprogress })), '25');
    // This SDK drops reports that it reads in one piece with the answer: those that it shows are in order.
    same(seen, Array.from({ length: 25 }, (_, i) => [i + 1, 25]).slice(0, seen.length));
  },
  async 'held progress'(peer) {
    const seen = [];
    let releasing;
    const onprogress = ({ progress, total, message }) => {
      seen.push([progress, total, message]);
      if (progress === 3) releasing = peer.call('release');
    };
    same(first(await peer.call('count', { n: 3, hold: true }, { onprogress })), '3');
    await releasing;
    const message = (i) => (peer.revision === '2024-11-05' ? undefined : `step ${i}`);
    same(seen, [1, 2, 3].map((i) => [i, 3, message(i)]));
  },
  async image({ call }) {
    const [block] = (await call('image')).content;
    same([block.type, block.mimeType], ['image', 'image/png']);
    same(Buffer.from(block.data, 'base64').subarray(1, 4).toString(), 'PNG');
  },
  async 'tool error'({ call }) {
    const result = await call('fail');
    same(result.isError, true);
    assert.match(first(result), /this tool fails/);
  },
  async 'bad arguments'({ call }) {
    const result = await call('add', { a: 'many', b: 1 });
    same(result.isError, true);
    assert.match(first(result), /\ba\b/);
  },
  async 'unknown tool'({ call }) {
    same(await codeOf(call('no-such-tool')), -32602);
  },
  async 'unknown method'({ client }) {
    same(await codeOf(client.request({ method: 'vendor/nothing' }, z.any())), -32601);
  },
  async parallel({ call }) {
    const texts = Array.from({ length: PARALLEL }, (_, i) => `text ${i}`);
    same((await Promise.all(texts.map((text) => call('echo', { text })))).map(first), texts);
  },
  async large({ call }) {
    const text = 'påfugl '.repeat(150_000);
    assert.ok(first(await call('echo', { text })) === text, 'the text came back changed');
  },
  async ping({ client }) {
    await client.ping();
  },
  async log(peer) {
    if (!peer.modern) await peer.client.setLoggingLevel('debug');
    same(first(await peer.call('note', { text: 'hør' })), 'noted');
    same(peer.host.logged, [{ level: 'info', data: 'hør' }]);
  },
  async cancel({ call }) {
    const stop = new AbortController();
    const onprogress = () => stop.abort('enough');
    await assert.rejects(call('slow', { seconds: 60 }, { onprogress, signal: stop.signal }));
    same(first(await call('cancellations', { expected: 1 })), '1');
  },
  async timeout({ call }) {
    await assert.rejects(call('slow', { seconds: 60 }, { timeout: 1500 }));
    same(first(await call('cancellations', { expected: 2 })), '2');
  },
  async 'alive after'({ call }) {
    same(first(await call('echo', { text: 'still' })), 'still');
  },
};
const HANDSHAKE_ONLY = ['ping'];

async function run(check, peer) {
  peer.host.forget();
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${SECONDS_PER_CHECK} s`)), SECONDS_PER_CHECK * 1000);
  });
  try {
    await Promise.race([check(peer), late]);
    return true;
  } catch (error) {
    return String(error).slice(0, 600);
  } finally {
    clearTimeout(timer);
  }
}

const [revision, ...command] = process.argv.slice(2);
const results = {};
const report = { revision: null, checks: results };
try {
  const peer = await (version2 === null ? open1 : open2)(revision, command);
  report.revision = peer.revision;
  const { name } = peer.client.getServerVersion() ?? {};
  results.connect = name === 'interop' || `name ${name}`;
  for (const [title, check] of Object.entries(checks)) {
    if (!(peer.modern && HANDSHAKE_ONLY.includes(title))) results[title] = await run(check, peer);
  }
  for (const [title, [check, [since, until]]] of Object.entries(features)) {
    if (since <= peer.revision && peer.revision <= until) results[title] = await run(check, peer);
  }
  await peer.client.close();
} catch (error) {
  results['connect' in results ? 'close' : 'connect'] = String(error).slice(0, 600);
}
console.log(JSON.stringify(report));
// A check that ran out of time may have left something that keeps the process.
process.exit(0);
