// Resources, prompts, completion, changes and log levels on a server of the TypeScript SDK, 1.x or 2.x.
//
// What the SDK leaves to its low-level server (pages, subscriptions) is done there.

import { z } from 'zod';

const TEXT = 'alle: å';
const TONES = ['plain', 'formal', 'friendly'];
const NUMBERS = ['1', '10', '100', '2'];
const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];
const PROMPTS_ON_PAGE = 2;

const NOTE = { type: 'resource', resource: { uri: 'note://all', mimeType: 'text/plain', text: TEXT } };
const said = (value) => ({ content: [{ type: 'text', text: value }] });
const starting = (known, typed) => known.filter((each) => each.startsWith(typed));

export const CACHE_HINTS = {
  'tools/list': { ttlMs: 30_000, cacheScope: 'public' },
  'prompts/list': { ttlMs: 30_000, cacheScope: 'public' },
  'resources/list': { ttlMs: 30_000, cacheScope: 'public' },
  'resources/read': { ttlMs: 5_000, cacheScope: 'private' },
};

// `sdk` is { ResourceTemplate, completable, optional(completer), onRequest(method, handler),
// log(extra, level, data, logger), modern() }.
export function addFeatures(server, sdk, pixel, shared = null) {
  addResources(server, sdk, pixel);
  addPrompts(server, sdk, pixel);
  addContents(server, sdk, pixel);
  addChanges(server, sdk, shared);
}

function addResources(server, { ResourceTemplate }, pixel) {
  server.registerResource('all', 'note://all', { mimeType: 'text/plain', description: 'All notes.' }, () => ({
    contents: [NOTE.resource],
  }));
  server.registerResource('pixel', 'note://pixel', { mimeType: 'image/png' }, () => ({
    contents: [{ uri: 'note://pixel', mimeType: 'image/png', blob: pixel }],
  }));
  const complete = { number: (typed) => starting(NUMBERS, typed) };
  server.registerResource('by_id', new ResourceTemplate('note://by-id/{number}', { list: undefined, complete }),
    { mimeType: 'text/plain' }, (uri, { number }) => ({
      contents: [{ uri: uri.href, mimeType: 'text/plain', text: `note ${number}` }],
    }));
}

function addPrompts(server, { completable, optional, onRequest }, pixel) {
  const names = (typed, context) =>
    starting(context?.arguments?.tone === 'formal' ? ['Sir Å', 'Dame B'] : ['Alice', 'Bob'], typed);
  const argsSchema = z.object({
    name: completable(z.string(), names),
    tone: optional((typed) => starting(TONES, typed ?? '')),
  });
  const shape = argsSchema.shape;
  server.registerPrompt('greet', { description: 'Greet somebody.', argsSchema: shape }, ({ name, tone }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name} in a ${tone ?? 'plain'} tone` } }],
  }));
  server.registerPrompt('picture', { description: 'Look at a picture.' }, () => ({
    messages: [
      { role: 'user', content: { type: 'text', text: 'Look:' } },
      { role: 'user', content: { type: 'image', data: pixel, mimeType: 'image/png' } },
      { role: 'assistant', content: NOTE },
    ],
  }));

  const whole = server.server._requestHandlers.get('prompts/list');
  onRequest('prompts/list', async (request, extra) => {
    const { prompts } = await whole({ method: 'prompts/list', params: {} }, extra);
    const begin = Number(request.params?.cursor ?? 0);
    if (Number.isNaN(begin)) throw Object.assign(new Error('no such page'), { code: -32602 });
    const end = begin + PROMPTS_ON_PAGE;
    return { prompts: prompts.slice(begin, end), ...(end < prompts.length ? { nextCursor: String(end) } : {}) };
  });
}

function addContents(server, { log }, pixel) {
  const blocks = {
    text: { type: 'text', text: 'text' },
    image: { type: 'image', data: pixel, mimeType: 'image/png' },
    audio: { type: 'audio', data: 'UklGRg==', mimeType: 'audio/wav' },
    resource: NOTE,
    resource_link: { type: 'resource_link', uri: 'note://all', name: 'all', mimeType: 'text/plain' },
  };
  const inputSchema = z.object({ kinds: z.array(z.string()) });
  server.registerTool('mixed', { description: 'Give blocks of these kinds.', inputSchema }, ({ kinds }) => ({
    content: kinds.map((kind) => blocks[kind]),
  }));
  server.registerTool('logs', { description: 'Send one message of each level.', inputSchema: z.object({}) },
    async (args, extra) => {
      for (const level of LEVELS) await log(extra, level, { level }, 'interop');
      return said('logged');
    });
}

function addChanges(server, { onRequest, modern }, shared) {
  const subscribed = new Set();
  onRequest('resources/subscribe', ({ params }) => (subscribed.add(params.uri), {}));
  onRequest('resources/unsubscribe', ({ params }) => (subscribed.delete(params.uri), {}));

  const inputSchema = z.object({ uri: z.string() });
  const touch = {
    description: 'Say that a resource has changed.', inputSchema, title: 'Touch it',
    annotations: { idempotentHint: true, readOnlyHint: false }, icons: [{ src: 'https://example.com/i.png' }],
    _meta: { 'example.com/colour': 'blue' },
  };
  server.registerTool('touch', touch, async ({ uri }) => {
    if (modern() && shared) shared.notify.resourceUpdated(uri);
    else if (modern() || subscribed.has(uri)) await server.server.sendResourceUpdated({ uri });
    return said('touched');
  });

  let added = [];
  const none = z.object({});
  const grow = () => {
    added = [
      server.registerTool('grown', { description: 'Came later.', inputSchema: none }, () => said('grown')),
      server.registerPrompt('grown', {}, () => ({ messages: [] })),
      server.registerResource('grown', 'note://grown', {}, () => ({ contents: [] })),
    ];
  };
  // A server that serves one request only is made anew as the last one was left.
  const left = (grown) => {
    if (!modern() || !shared) return;
    shared.grown = grown;
    shared.notify.toolsChanged();
    shared.notify.promptsChanged();
    shared.notify.resourcesChanged();
  };
  if (shared?.grown) grow();
  server.registerTool('grow', { description: 'Add a tool, a prompt and a resource.', inputSchema: none }, () => {
    grow();
    left(true);
    return said('grown');
  });
  server.registerTool('shrink', { description: 'Take them away again.', inputSchema: none }, () => {
    for (const each of added) each.remove();
    left(false);
    return said('shrunk');
  });
}
