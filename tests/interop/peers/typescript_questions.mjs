// What a server of the TypeScript SDK asks its client: in 1.x each question is a request of its own, in 2.x a result
// asks, and the SDK turns that into requests where the revision has a handshake.

import { z } from 'zod';

const URL = 'https://example.com/open?a=1';
const PERSON = {
  type: 'object', properties: { name: { type: 'string' }, age: { type: 'integer', default: 36 } }, required: ['name'],
};
const AGE = { type: 'object', properties: { age: { type: 'integer' } }, required: ['age'] };
const TOOLS = [{ name: 'twice', inputSchema: { type: 'object', properties: { a: { type: 'integer' } } } }];
const NONE = z.object({});

const said = (value) => ({ content: [{ type: 'text', text: value }] });
const message = (role, content) => ({ role, content });
const user = (text) => message('user', { type: 'text', text });
const only = (content) => (Array.isArray(content) ? content[0] : content);
const form = (text, requestedSchema = PERSON) => ({ mode: 'form', message: text, requestedSchema });
const model = (text) => ({
  messages: [user(text)], maxTokens: 50, systemPrompt: 'Be short.', temperature: 0.5, stopSequences: ['.'],
});
const toolsFirst = { messages: [user('Twice 1?')], maxTokens: 50, tools: TOOLS, toolChoice: { mode: 'required' } };
const toolsThen = (use) => ({
  messages: [
    user('Twice 1?'), message('assistant', use),
    message('user', { type: 'tool_result', toolUseId: use.id, content: [{ type: 'text', text: String(2 * use.input.a) }] }),
  ],
  maxTokens: 50, tools: TOOLS,
});
const formSaid = ({ action, content }) =>
  said(action === 'accept' ? `accept ${content.name} ${content.age}` : action);
const modelSaid = (result) => said(`${result.model}: ${only(result.content).text} (${result.stopReason})`);
const rootsSaid = ({ roots }) => said(roots.map(({ uri }) => uri).join(', '));
const manySaid = (who, sampled, { roots }) => said(`${who.content.name} | ${only(sampled.content).text} | ${roots.length}`);

const DESCRIPTIONS = {
  ask_form: 'Ask the user to fill in a form.',
  ask_url: 'Ask the user to open a URL.',
  ask_model: "Ask the client's model.",
  ask_tools: "Let the client's model use a tool.",
  ask_roots: 'Ask for the roots.',
  ask_many: 'Ask three things at once.',
  ask_twice: 'Ask, and ask about the answer.',
  need_url: 'Answer the second call only: the first one needs a URL to be opened.',
};

function addTools(server, tools) {
  for (const [name, handler] of Object.entries(tools)) {
    const inputSchema = name === 'ask_model' ? z.object({ text: z.string() }) : NONE;
    server.registerTool(name, { description: DESCRIPTIONS[name], inputSchema }, handler);
  }
}

function needUrl(UrlElicitationRequiredError) {
  let opened = false;
  return () => {
    if (!opened) {
      opened = true;
      throw new UrlElicitationRequiredError(
        [{ mode: 'url', message: 'First this', url: URL, elicitationId: 'interop-2' }], 'open it first');
    }
    return said('opened');
  };
}

export function addQuestions1(server, { ResourceTemplate, UrlElicitationRequiredError }) {
  const low = server.server;
  addTools(server, {
    need_url: needUrl(UrlElicitationRequiredError),
    ask_form: async () => formSaid(await low.elicitInput(form('Who are you?'))),
    ask_url: async () => {
      const asked = { mode: 'url', message: 'Open it', url: URL, elicitationId: 'interop-1' };
      const { action } = await low.elicitInput(asked);
      if (action === 'accept') await low.createElicitationCompletionNotifier('interop-1')();
      return said(action);
    },
    ask_model: async ({ text }) => modelSaid(await low.createMessage(model(text))),
    ask_tools: async () => {
      const use = only((await low.createMessage(toolsFirst)).content);
      return said(only((await low.createMessage(toolsThen(use))).content).text);
    },
    ask_roots: async () => {
      await low.ping();
      return rootsSaid(await low.listRoots());
    },
    ask_many: async () => {
      const asked = [low.elicitInput(form('Who are you?')), low.createMessage({ messages: [user('Hi')], maxTokens: 50 })];
      return manySaid(...(await Promise.all([...asked, low.listRoots()])));
    },
    ask_twice: async () => {
      const { name } = (await low.elicitInput(form('Who are you?'))).content;
      const { age } = (await low.elicitInput(form(`How old is ${name}?`, AGE))).content;
      return said(`${name} is ${age}, 1 step`);
    },
  });
  server.registerPrompt('survey', { description: 'Ask before there is a prompt.' }, async () => ({
    messages: [user(`survey by ${(await low.elicitInput(form('Who are you?'))).content.name}`)],
  }));
  server.registerResource('secret', new ResourceTemplate('note://secret/{number}', { list: undefined }),
    { mimeType: 'text/plain' }, async (uri, { number }) => {
      const { name } = (await low.elicitInput(form('Who reads?'))).content;
      return { contents: [{ uri: uri.href, mimeType: 'text/plain', text: `secret ${number} for ${name}` }] };
    });
}

// `codec` seals what the second round has to know: see createRequestStateCodec.
export function addQuestions2(server, { ResourceTemplate, UrlElicitationRequiredError, inputRequired }, codec) {
  const answers = (context) => context.mcpReq.inputResponses ?? {};
  const askedFor = (inputRequests, requestState) => inputRequired({ inputRequests, ...(requestState ? { requestState } : {}) });
  const who = (text) => inputRequired.elicit({ message: text, requestedSchema: PERSON });

  // The result if the answer is there, else the question.
  const once = (key, question, result) => (args, context) => {
    const answer = answers(context)[key];
    return answer === undefined ? askedFor({ [key]: question(args) }) : result(answer);
  };

  addTools(server, {
    need_url: needUrl(UrlElicitationRequiredError),
    ask_form: once('who', () => who('Who are you?'), formSaid),
    ask_url: once('url', () => inputRequired.elicitUrl({ message: 'Open it', url: URL }), ({ action }) => said(action)),
    ask_model: once('model', ({ text }) => inputRequired.createMessage(model(text)), modelSaid),
    ask_roots: once('roots', () => inputRequired.listRoots(), rootsSaid),
    ask_tools: (args, context) => {
      const { use, result } = answers(context);
      if (result !== undefined) return said(only(result.content).text);
      if (use !== undefined) return askedFor({ result: inputRequired.createMessage(toolsThen(only(use.content))) });
      return askedFor({ use: inputRequired.createMessage(toolsFirst) });
    },
    ask_many: (args, context) => {
      const { who: person, model: sampled, roots } = answers(context);
      if (person !== undefined) return manySaid(person, sampled, roots);
      return askedFor({
        who: who('Who are you?'), model: inputRequired.createMessage({ messages: [user('Hi')], maxTokens: 50 }),
        roots: inputRequired.listRoots(),
      });
    },
    ask_twice: async (args, context) => {
      const { who: person, age } = answers(context);
      if (age !== undefined) return said(`${context.mcpReq.requestState().name} is ${age.content.age}, 1 step`);
      if (person === undefined) return askedFor({ who: who('Who are you?') });
      const { name } = person.content;
      const question = inputRequired.elicit({ message: `How old is ${name}?`, requestedSchema: AGE });
      return askedFor({ age: question }, await codec.mint({ name }));
    },
  });
  server.registerPrompt('survey', { description: 'Ask before there is a prompt.' }, (context) =>
    once('who', () => who('Who are you?'), ({ content }) => ({
      messages: [user(`survey by ${content.name}`)],
    }))({}, context));
  server.registerResource('secret', new ResourceTemplate('note://secret/{number}', { list: undefined }),
    { mimeType: 'text/plain' }, (uri, { number }, context) =>
      once('who', () => who('Who reads?'), ({ content }) => ({
        contents: [{ uri: uri.href, mimeType: 'text/plain', text: `secret ${number} for ${content.name}` }],
      }))({}, context));
}
