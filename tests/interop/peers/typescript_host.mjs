// What stands behind a client of the TypeScript SDK, 1.x or 2.x: a user, a model, roots, and ears.

const ROOTS = [{ uri: 'file:///interop/one', name: 'one' }, { uri: 'file:///interop/tw%C3%B6' }];
const NOTICES = [
  'notifications/message', 'notifications/tools/list_changed', 'notifications/prompts/list_changed',
  'notifications/resources/list_changed', 'notifications/resources/updated', 'notifications/elicitation/complete',
];

export const CAPABILITIES = { sampling: { tools: {} }, elicitation: { form: {}, url: {} }, roots: { listChanged: true } };

// Call the tool if there is one and it has not been called, else repeat what the user said last.
function answerAsModel({ messages, tools }) {
  const { content } = messages.at(-1);
  const last = Array.isArray(content) ? content.at(-1) : content;
  const result = { role: 'assistant', model: 'interop-model' };
  if (tools && last.type !== 'tool_result') {
    return { ...result, stopReason: 'toolUse', content: { type: 'tool_use', id: 'use-1', name: tools[0].name, input: { a: 1 } } };
  }
  const text = last.type === 'tool_result' ? last.content[0].text : last.text;
  return { ...result, stopReason: 'endTurn', content: { type: 'text', text: `You said: ${text}` } };
}

const answerAsUser = ({ mode }) => (mode === 'url' ? { action: 'accept' } : { action: 'accept', content: { name: 'Ada' } });

// The callbacks: they answer as a check says, and remember what they were asked and told.
export class Host {
  constructor() {
    this.roots = ROOTS;
    this.waiting = [];
    this.forget();
  }

  // Be friendly again, asked nothing and told nothing.
  forget() {
    this.asked = [];
    this.heard = [];
    this.sampled = answerAsModel;
    this.elicited = answerAsUser;
  }

  // `request` and `notice` stand for the SDK's two ways to set a handler, by method.
  attach(request, notice) {
    request('sampling/createMessage', ({ params }) => (this.asked.push(params), this.sampled(params)));
    request('elicitation/create', ({ params }) => (this.asked.push(params), this.elicited(params)));
    request('roots/list', () => ({ roots: this.roots }));
    for (const method of NOTICES) {
      notice(method, ({ params }) => {
        this.heard.push([method, params ?? {}]);
        for (const look of this.waiting) look();
      });
    }
  }

  // Resolves when it is enough; the check's own time bounds this.
  wait(enough) {
    return new Promise((resolve) => {
      const look = () => {
        if (!enough(this)) return;
        this.waiting = this.waiting.filter((other) => other !== look);
        resolve();
      };
      this.waiting.push(look);
      look();
    });
  }

  get logged() {
    return this.heard.filter(([method]) => method === 'notifications/message').map(([, params]) => params);
  }

  has(method, uri) {
    return this.heard.some(([each, params]) => each === method && (uri === undefined || params.uri === uri));
  }
}
