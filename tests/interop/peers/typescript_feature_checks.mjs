// Everything but plain tools that our server has: asked, heard and answered by a client of the TypeScript SDK.

import assert from 'node:assert/strict';

const TEXT = 'alle: å';
const URL = 'https://example.com/open?a=1';
const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];
const UPDATED = 'notifications/resources/updated';
const CHANGED = ['tools', 'prompts', 'resources'].map((kind) => `notifications/${kind}/list_changed`);
// Where in a state of our server its signature stands.
const SEAL = 20;
const MEMBERS = { listTools: 'tools', listPrompts: 'prompts', listResources: 'resources', listResourceTemplates: 'resourceTemplates' };

// The module's own comparison, with a message of one line.
export function same(got, wanted) {
  try {
    assert.deepEqual(got, wanted);
  } catch {
    throw new Error(`got ${JSON.stringify(got)?.slice(0, 300)}, expected ${JSON.stringify(wanted)?.slice(0, 300)}`);
  }
}

// Names what a rejection was: its code tells enough, the messages are free.
export const codeOf = (promise) => promise.then(() => 'no error', (error) => error.code);

async function textOf({ call }, name, args) {
  const result = await call(name, args);
  if (result.isError) throw new Error(`${name}: ${result.content[0].text}`);
  return result.content[0].text;
}

// One page, fetched even if the client keeps an older one.
const page = ({ client, refresh }, method, cursor) => client[method]({ cursor }, refresh);

// All items of a list, page after page; the cursor is named, for 2.x fetches all pages when there is none.
export async function everything(peer, method) {
  const found = [];
  let result = await page(peer, method);
  for (;;) {
    found.push(...result[MEMBERS[method]]);
    if (result.nextCursor === undefined) return found;
    result = await page(peer, method, result.nextCursor);
  }
}

const read = async ({ client, refresh }, uri) => (await client.readResource({ uri }, refresh)).contents;
const named = (items, name) => items.some((each) => each.name === name);

async function contents(peer) {
  const kinds = ['text', 'image', 'resource'];
  if (peer.revision >= '2025-03-26') kinds.push('audio');
  if (peer.revision >= '2025-06-18') kinds.push('resource_link');
  const blocks = (await peer.call('mixed', { kinds })).content;
  same(blocks.map(({ type }) => type), kinds);
  same(blocks[2].resource, { uri: 'note://all', mimeType: 'text/plain', text: TEXT });
  if (blocks[3]) same([blocks[3].data, blocks[3].mimeType], ['UklGRg==', 'audio/wav']);
  if (blocks[4]) same([blocks[4].uri, blocks[4].name], ['note://all', 'all']);
}

async function resources(peer) {
  const listed = await everything(peer, 'listResources');
  same(listed.map(({ uri }) => uri).sort(), ['note://all', 'note://pixel']);
  same(await read(peer, 'note://all'), [{ uri: 'note://all', mimeType: 'text/plain', text: TEXT }]);
  const [item] = await read(peer, 'note://pixel');
  same([item.mimeType, Buffer.from(item.blob, 'base64').subarray(1, 4).toString()], ['image/png', 'PNG']);
}

async function templates(peer) {
  const listed = await everything(peer, 'listResourceTemplates');
  same(listed.map(({ uriTemplate }) => uriTemplate).sort(), ['note://by-id/{number}', 'note://secret/{number}']);
  same((await read(peer, 'note://by-id/7'))[0].text, 'note 7');
}

async function noResource(peer) {
  for (const uri of ['note://nowhere', 'note://by-id/seven']) {
    const error = await read(peer, uri).then(() => assert.fail('no error'), (reason) => reason);
    // 2.x knows what it means, and shows a code of its own for it.
    if (peer.ResourceNotFoundError) assert.ok(error instanceof peer.ResourceNotFoundError, String(error));
    else same(error.code, -32002);
  }
}

async function pages(peer) {
  const first = await page(peer, 'listPrompts');
  same((await everything(peer, 'listPrompts')).length, 3);
  same([first.prompts.length, typeof first.nextCursor], peer.gathers ? [3, 'undefined'] : [2, 'string']);
  same(await codeOf(page(peer, 'listPrompts', '?')), -32602);
}

async function prompts(peer) {
  const listed = await everything(peer, 'listPrompts');
  same(listed.map(({ name }) => name).sort(), ['greet', 'picture', 'survey']);
  const greet = listed.find(({ name }) => name === 'greet');
  same(greet.arguments.map(({ name, required }) => [name, Boolean(required)]), [['name', true], ['tone', false]]);
  for (const tone of [undefined, 'formal']) {
    const args = tone === undefined ? { name: 'Åse' } : { name: 'Åse', tone };
    const { messages } = await peer.client.getPrompt({ name: 'greet', arguments: args });
    same([messages[0].role, messages[0].content.text], ['user', `Greet Åse in a ${tone ?? 'plain'} tone`]);
  }
  const { messages } = await peer.client.getPrompt({ name: 'picture' });
  same(messages.map(({ role, content }) => [role, content.type]), [['user', 'text'], ['user', 'image'], ['assistant', 'resource']]);
}

async function promptErrors({ client }) {
  same(await codeOf(client.getPrompt({ name: 'no-such-prompt' })), -32602);
  same(await codeOf(client.getPrompt({ name: 'greet', arguments: { tone: 'plain' } })), -32602);
}

async function completion({ client }) {
  const prompt = { type: 'ref/prompt', name: 'greet' };
  const template = { type: 'ref/resource', uri: 'note://by-id/{number}' };
  const values = async (ref, name, value, chosen) => {
    const context = chosen ? { context: { arguments: chosen } } : {};
    return (await client.complete({ ref, argument: { name, value }, ...context })).completion.values;
  };
  same(await values(prompt, 'tone', 'f'), ['formal', 'friendly']);
  same(await values(prompt, 'name', ''), ['Alice', 'Bob']);
  same(await values(prompt, 'name', 'D', { tone: 'formal' }), ['Dame B']);
  same(await values(template, 'number', '1'), ['1', '10', '100']);
}

async function logLevels(peer) {
  for (const level of ['warning', 'debug']) {
    peer.host.forget();
    await peer.logs(level);
    await peer.host.wait(({ logged }) => logged.some((message) => message.level === 'emergency'));
    const wanted = LEVELS.slice(LEVELS.indexOf(level));
    same(peer.host.logged.map((message) => message.level), wanted);
    same([peer.host.logged[0].logger, peer.host.logged[0].data], ['interop', { level: wanted[0] }]);
  }
}

async function listChanges(peer) {
  for (const [tool, there] of [['grow', true], ['shrink', false]]) {
    peer.host.forget();
    await textOf(peer, tool);
    await peer.host.wait((host) => CHANGED.every((method) => host.has(method)));
    for (const method of ['listTools', 'listPrompts', 'listResources']) {
      same(named(await everything(peer, method), 'grown'), there);
    }
  }
}

async function subscriptions(peer) {
  await peer.client.subscribeResource({ uri: 'note://all' });
  await peer.client.subscribeResource({ uri: 'note://pixel' });
  await textOf(peer, 'touch', { uri: 'note://all' });
  await peer.host.wait((host) => host.has(UPDATED, 'note://all'));
  await peer.client.unsubscribeResource({ uri: 'note://all' });
  peer.host.forget();
  for (const uri of ['note://all', 'note://pixel']) await textOf(peer, 'touch', { uri });
  await peer.host.wait((host) => host.has(UPDATED, 'note://pixel'));
  same(peer.host.has(UPDATED, 'note://all'), false);
  await peer.client.unsubscribeResource({ uri: 'note://pixel' });
}

async function listen(peer) {
  const filter = { toolsListChanged: true, resourceSubscriptions: ['note://pixel'] };
  const stream = await peer.client.listen(filter);
  same(stream.honoredFilter, filter);
  for (const uri of ['note://all', 'note://pixel']) await textOf(peer, 'touch', { uri });
  await peer.host.wait((host) => host.has(UPDATED, 'note://pixel'));
  await textOf(peer, 'grow');
  await peer.host.wait((host) => host.has(CHANGED[0]));
  same([peer.host.has(UPDATED, 'note://all'), peer.host.has(CHANGED[1])], [false, false]);
  same(named((await peer.client.listTools()).tools, 'grown'), true);
  await stream.close();
  same(await stream.closed, 'local');
  await textOf(peer, 'shrink');
}

async function cache({ client, call }) {
  const fresh = await client.listResources(undefined, { cacheMode: 'refresh' });
  const read = await client.readResource({ uri: 'note://all' }, { cacheMode: 'refresh' });
  same([read.ttlMs, read.cacheScope], [5000, 'private']);
  await call('grow');
  same((await client.listResources()).resources, fresh.resources);
  same(named((await client.listResources(undefined, { cacheMode: 'refresh' })).resources, 'grown'), true);
  await call('shrink');
}

async function form(peer) {
  same(await textOf(peer, 'ask_form'), 'accept Ada 36');
  const [asked] = peer.host.asked;
  same([asked.message, Object.keys(asked.requestedSchema.properties)], ['Who are you?', ['name', 'age']]);
  for (const action of ['decline', 'cancel']) {
    peer.host.elicited = () => ({ action });
    same(await textOf(peer, 'ask_form'), action);
  }
}

async function url(peer) {
  same(await textOf(peer, 'ask_url'), 'accept');
  const [asked] = peer.host.asked;
  same([asked.mode, asked.url], ['url', URL]);
  if (!peer.modern) {
    same(asked.elicitationId, 'interop-1');
    await peer.host.wait((host) => host.has('notifications/elicitation/complete'));
  }
  peer.host.elicited = () => ({ action: 'decline' });
  same(await textOf(peer, 'ask_url'), 'decline');
}

async function urlError(peer) {
  if (peer.modern) {
    same(await textOf(peer, 'need_url'), 'opened');
    same(peer.host.asked.map((asked) => asked.url), [URL]);
    return;
  }
  const error = await peer.call('need_url').then(() => assert.fail('no error'), (reason) => reason);
  const [wanted] = error.data.elicitations;
  same([error.code, wanted.url, wanted.elicitationId], [-32042, URL, 'interop-2']);
  same(await textOf(peer, 'need_url'), 'opened');
}

async function sampling(peer) {
  same(await textOf(peer, 'ask_model', { text: 'Hej' }), 'interop-model: You said: Hej (endTurn)');
  const [asked] = peer.host.asked;
  same([asked.maxTokens, asked.systemPrompt, asked.temperature, asked.stopSequences], [50, 'Be short.', 0.5, ['.']]);
}

async function samplingTools(peer) {
  same(await textOf(peer, 'ask_tools'), 'You said: 2');
  const [first, second] = peer.host.asked;
  same([first.tools[0].name, first.toolChoice, second.messages.length], ['twice', { mode: 'required' }, 3]);
}

async function refused(peer) {
  peer.host.sampled = () => {
    throw Object.assign(new Error('not today'), { code: -1 });
  };
  if (peer.modern) {
    await assert.rejects(peer.call('ask_model', { text: 'Hej' }));
    return;
  }
  const result = await peer.call('ask_model', { text: 'Hej' });
  same([result.isError, /not today/.test(result.content[0].text)], [true, true]);
}

async function roots(peer) {
  same(await textOf(peer, 'ask_roots'), peer.host.roots.map((root) => root.uri).join(', '));
}

async function many(peer) {
  same(await textOf(peer, 'ask_many'), 'Ada | You said: Hi | 2');
  same(peer.host.asked.length, 2);
}

async function twice(peer) {
  peer.host.elicited = ({ message }) => ({ action: 'accept', content: /Who/.test(message) ? { name: 'Ada' } : { age: 40 } });
  same(await textOf(peer, 'ask_twice'), 'Ada is 40, 1 step');
  same(peer.host.asked.map(({ message }) => message), ['Who are you?', 'How old is Ada?']);
}

// A form with every kind of field that the revision has: the SDK looks at the form, and at what is filled in.
async function choices(peer) {
  const lists = peer.revision >= '2025-11-25';
  const filled = { mail: 'ada@example.com', word: 'abc', count: 3, share: 0.5, sure: false, colour: 'red', size: 'l' };
  if (lists) Object.assign(filled, { days: ['mon'], fish: ['f1', 'f2'] });
  peer.host.elicited = () => ({ action: 'accept', content: filled });
  same(JSON.parse(await textOf(peer, 'ask_choices', { lists })), filled);
  const { properties } = peer.host.asked[0].requestedSchema;
  same(Object.keys(properties).sort(), Object.keys(filled).sort());
  const titled = [{ const: 's', title: 'Small' }, { const: 'l', title: 'Large' }];
  if (lists) same(properties.size.oneOf, titled);
  else same([properties.size.enum, properties.size.enumNames], [['s', 'l'], ['Small', 'Large']]);
}

async function manyAskers(peer) {
  const texts = Array.from({ length: 20 }, (_, i) => `text ${i}`);
  const said = await Promise.all(texts.map((text) => textOf(peer, 'ask_model', { text })));
  same(said, texts.map((text) => `interop-model: You said: ${text} (endTurn)`));
}

// What the revision has words for, and no word more.
async function descriptions(peer) {
  const { name, inputSchema, outputSchema, ...found } = (await everything(peer, 'listTools')).find((tool) => tool.name === 'touch');
  const wanted = { description: 'Say that a resource has changed.' };
  if (peer.revision >= '2025-03-26') wanted.annotations = { idempotentHint: true, readOnlyHint: false };
  if (peer.revision === '2025-03-26') wanted.annotations.title = 'Touch it';
  if (peer.revision >= '2025-06-18') Object.assign(wanted, { title: 'Touch it', _meta: { 'example.com/colour': 'blue' } });
  if (peer.revision >= '2025-11-25') wanted.icons = [{ src: 'https://example.com/i.png', mimeType: 'image/png' }];
  same(found, wanted);
}

async function askingPrompt({ client }) {
  const { messages } = await client.getPrompt({ name: 'survey' });
  same(messages[0].content.text, 'survey by Ada');
}

async function askingResource(peer) {
  same((await read(peer, 'note://secret/3'))[0].text, 'secret 3 for Ada');
}

// Drive the rounds without the SDK's loop; a state that somebody has touched is not taken.
async function roundsByHand({ client }) {
  const options = { allowInputRequired: true };
  const first = await client.callTool({ name: 'ask_twice', arguments: {} }, options);
  same([first.resultType, Object.keys(first.inputRequests)], ['input_required', ['who']]);
  const inputResponses = { who: { action: 'accept', content: { name: 'Bo' } } };
  const again = (requestState) => client.callTool({ name: 'ask_twice', arguments: {}, inputResponses, requestState }, options);
  const state = first.requestState;
  const touched = state.slice(0, SEAL) + (state[SEAL] === 'A' ? 'B' : 'A') + state.slice(SEAL + 1);
  same(await codeOf(again(touched)), -32602);
  const second = await again(first.requestState);
  same(second.inputRequests.age.params.message, 'How old is Bo?');
}

const [ALWAYS, HANDSHAKE] = [['2024-11-05', '2026-07-28'], ['2024-11-05', '2025-11-25']];
const [FORMS, URLS, MODERN] = [['2025-06-18', '2026-07-28'], ['2025-11-25', '2026-07-28'], ['2026-07-28', '2026-07-28']];

// By name: the check, and the revisions in which there is something to check.
export const features = {
  contents: [contents, ALWAYS], resources: [resources, ALWAYS], templates: [templates, ALWAYS],
  'no resource': [noResource, ALWAYS], pages: [pages, ALWAYS], prompts: [prompts, ALWAYS],
  'prompt errors': [promptErrors, ALWAYS], completion: [completion, ALWAYS], 'log levels': [logLevels, ALWAYS],
  'list changes': [listChanges, HANDSHAKE], subscriptions: [subscriptions, HANDSHAKE], cache: [cache, MODERN],
  listen: [listen, MODERN], form: [form, FORMS], url: [url, URLS], 'url error': [urlError, URLS],
  sampling: [sampling, ALWAYS], 'sampling tools': [samplingTools, URLS], refused: [refused, ALWAYS],
  roots: [roots, ALWAYS], many: [many, FORMS], twice: [twice, FORMS], 'asking prompt': [askingPrompt, FORMS],
  choices: [choices, FORMS], 'many askers': [manyAskers, ALWAYS], descriptions: [descriptions, ALWAYS],
  'asking resource': [askingResource, FORMS], 'rounds by hand': [roundsByHand, MODERN],
};
