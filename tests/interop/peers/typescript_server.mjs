// The shared tools on a server of the TypeScript SDK: 1.x, or 2.x (both eras) where that is installed.
//
// Usage: typescript_server.mjs [WAY] where WAY is "http" or "sse" (1.x only), at the port in the variable PORT;
// without, over stdio.

import { z } from 'zod';
import { CACHE_HINTS, addFeatures } from './typescript_features.mjs';
import { addQuestions1, addQuestions2 } from './typescript_questions.mjs';
import { Shared, listen, listenOlder, toRequest, toResponse, withSessions } from './typescript_web.mjs';

const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

const text = (value) => ({ content: [{ type: 'text', text: value }] });

// Ends the wait of the count that is held.
let release = () => {};

// How many slow calls were cancelled, and who waits for the next.
let cancelled = 0;
let waiting = [];

function addCancelled() {
  cancelled += 1;
  for (const look of waiting) look();
}

function reach(expected) {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(cancelled), 5000);
    const look = () => {
      if (cancelled < expected) return;
      clearTimeout(timer);
      waiting = waiting.filter((other) => other !== look);
      resolve(cancelled);
    };
    waiting.push(look);
    look();
  });
}

function sleep(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      addCancelled();
      reject(new Error('cancelled'));
    });
  });
}

// `call(extra)` hides what differs: { progress(done, total, message), log(data), signal }.
function register(server, call) {
  // An empty shape would make 1.x take its arguments in another order: give every tool a schema.
  const tool = (name, description, shape, handler, outputSchema) =>
    server.registerTool(name, { description, inputSchema: z.object(shape), outputSchema },
      (args, extra) => handler(args, call(extra)));

  tool('echo', 'Give the text back.', { text: z.string() }, ({ text: value }) => text(value));

  tool('add', 'Add two numbers.', { a: z.number().int(), b: z.number().int() }, ({ a, b }) => ({
    ...text(String(a + b)), structuredContent: { result: a + b },
  }), z.object({ result: z.number() }));

  const weather = z.object({
    place: z.object({ city: z.string(), tags: z.array(z.string()) }), degrees: z.number(),
  });
  tool('weather', 'Tell a nested record.', { city: z.string() }, ({ city }) => {
    const record = { place: { city, tags: ['å', 'b'] }, degrees: 21.5 };
    return { ...text(JSON.stringify(record)), structuredContent: record };
  }, weather);

  const held = { n: z.number().int(), hold: z.boolean().default(false) };
  tool('count', 'Report progress n times; with hold, answer only after a release.', held, async ({ n, hold }, request) => {
    const released = hold && new Promise((resolve) => {
      release = resolve;
      setTimeout(resolve, 5000).unref();
    });
    for (let i = 1; i <= n; i++) await request.progress(i, n, `step ${i}`);
    await released;
    return text(String(n));
  });

  tool('release', 'Let the last count answer.', {}, () => {
    release();
    return text('released');
  });

  tool('fail', 'Fail always.', {}, () => {
    throw new Error('this tool fails');
  });

  tool('slow', 'Report once, then take the seconds.', { seconds: z.number() }, async ({ seconds }, request) => {
    await request.progress(1);
    await sleep(seconds, request.signal);
    return text('done');
  });

  tool('cancellations', 'Wait until so many slow calls were cancelled, and tell how many were.',
    { expected: z.number().int() }, async ({ expected }) => text(String(await reach(expected))));

  tool('image', 'Give a picture of one pixel.', {}, () => ({
    content: [{ type: 'image', data: PIXEL, mimeType: 'image/png' }],
  }));

  tool('note', 'Send one log message.', { text: z.string() }, async ({ text: value }, request) => {
    await request.log(value);
    return text('noted');
  });
}

const identity = { name: 'interop', version: '0' };
const options = {
  capabilities: { logging: {}, resources: { subscribe: true, listChanged: true } },
  instructions: 'Tools of the interop grid.',
};

const progressOf = (meta, notify) => async (progress, total, message) => {
  const progressToken = meta?.progressToken;
  if (progressToken === undefined) return;
  await notify({ method: 'notifications/progress', params: { progressToken, progress, total, message } });
};

async function serve1() {
  const { McpServer, ResourceTemplate } = await import('@modelcontextprotocol/sdk/server/mcp.js');
  const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js');
  const { completable } = await import('@modelcontextprotocol/sdk/server/completable.js');
  const types = await import('@modelcontextprotocol/sdk/types.js');
  const make = () => make1({ McpServer, ResourceTemplate, completable, types });
  if (way === 'http') {
    const { StreamableHTTPServerTransport } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js');
    const serve = withSessions(make, StreamableHTTPServerTransport);
    listen((request, response) =>
      serve(request.headers['mcp-session-id'], (transport) => transport.handleRequest(request, response)));
  } else if (way === 'sse') {
    const { SSEServerTransport } = await import('@modelcontextprotocol/sdk/server/sse.js');
    listenOlder(make, SSEServerTransport);
  } else {
    await make().connect(new StdioServerTransport());
  }
}

function make1({ McpServer, ResourceTemplate, completable, types }) {
  const server = new McpServer(identity, options);
  register(server, (extra) => ({
    signal: extra.signal,
    log: (data) => server.sendLoggingMessage({ level: 'info', data }, extra.sessionId),
    progress: progressOf(extra._meta, extra.sendNotification),
  }));
  const schemas = {
    'prompts/list': types.ListPromptsRequestSchema,
    'resources/subscribe': types.SubscribeRequestSchema,
    'resources/unsubscribe': types.UnsubscribeRequestSchema,
  };
  addFeatures(server, {
    ResourceTemplate, completable, modern: () => false,
    optional: (completer) => completable(z.string().optional(), completer),
    onRequest: (method, handler) => server.server.setRequestHandler(schemas[method], handler),
    log: (extra, level, data, logger) => server.sendLoggingMessage({ level, data, logger }, extra.sessionId),
  }, PIXEL);
  addQuestions1(server, { ...types, ResourceTemplate });
  return server;
}

async function serve2(sdk) {
  const { serveStdio } = await import('@modelcontextprotocol/server/stdio');
  const codec = sdk.createRequestStateCodec({ key: new TextEncoder().encode('a key of the interop grid: 32 bytes') });
  const shared = way === 'http' ? new Shared() : null;
  const make = () => {
    const requestState = { verify: codec.verify };
    const server = new sdk.McpServer(identity, { ...options, cacheHints: CACHE_HINTS, requestState });
    register(server, (context) => ({
      signal: context.mcpReq.signal,
      log: (data) => context.mcpReq.log('info', data),
      progress: progressOf(context.mcpReq._meta, context.mcpReq.notify),
    }));
    addFeatures(server, {
      ...sdk, optional: (completer) => sdk.completable(z.string(), completer).optional(),
      modern: () => server.server.getNegotiatedProtocolVersion() === '2026-07-28',
      onRequest: (method, handler) => server.server.setRequestHandler(method, handler),
      log: (context, level, data, logger) => context.mcpReq.log(level, data, logger),
    }, PIXEL, shared);
    addQuestions2(server, sdk, codec);
    return server;
  };
  if (way !== 'http') {
    serveStdio(make);
    return;
  }
  const older = withSessions(make, sdk.WebStandardStreamableHTTPServerTransport);
  const modern = sdk.createMcpHandler(make, { legacy: 'reject' });
  shared.notify = modern.notify;
  listen(async (incoming, outgoing) => {
    const request = toRequest(incoming, outgoing);
    const id = request.headers.get('mcp-session-id');
    const legacy = await sdk.isLegacyRequest(request);
    const answer = legacy ? await older(id, (transport) => transport.handleRequest(request)) : await modern.fetch(request);
    await toResponse(answer, outgoing);
  });
}

const [way] = process.argv.slice(2);
const version2 = await import('@modelcontextprotocol/server').catch(() => null);
await (version2 === null ? serve1() : serve2(version2));
