// The server of the benchmark on the official TypeScript SDK, over stdio. Modes are those of limit_server.py.

import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const text = (value) => ({ content: [{ type: 'text', text: value }] });
const both = (value) => ({ ...text(JSON.stringify(value)), structuredContent: { result: value } });
const record = z.object({
  id: z.int(), name: z.string(), tags: z.array(z.string()), at: z.object({ lat: z.number(), lon: z.number() }),
});
const [mode = 'plain'] = process.argv.slice(2);
if (!['plain', 'records', 'many'].includes(mode)) {
  console.error(`the mode ${mode} is not measured`);
  process.exit(2);
}

function make() {
  const server = new McpServer({ name: 'bench', version: '0' });
  const tool = (name, description, shape, handler, outputSchema) =>
    server.registerTool(name, { description, inputSchema: z.object(shape), outputSchema }, handler);
  if (mode === 'many') {
    const shape = { city: z.string(), days: z.int().default(3), units: z.string().default('metric') };
    for (let number = 0; number < 1000; number += 1) {
      tool(`tool_${number}`, 'Forecast it.', shape, ({ city }) => text(city));
    }
    return server;
  }
  tool('echo', 'Return the text.', { text: z.string() }, ({ text: value }) => text(value));
  tool('add', 'Add two numbers.', { a: z.int(), b: z.int() }, ({ a, b }) => both(a + b), z.object({ result: z.int() }));
  tool('sleep', 'Sleep.', { seconds: z.number() }, async ({ seconds }) => {
    await new Promise((resolve) => { setTimeout(resolve, seconds * 1000); });
    return text('slept');
  });
  tool('count', 'Report progress n times.', { n: z.int() }, async ({ n }, context) => {
    const { _meta: meta, notify } = context.mcpReq;
    for (let progress = 1; progress <= n; progress += 1) {
      const params = { progressToken: meta.progressToken, progress, total: n };
      await notify({ method: 'notifications/progress', params });
    }
    return text('done');
  });
  if (mode === 'records') {
    const items = { items: z.array(record) };
    tool('records', 'Return the records.', items, (given) => both(given.items), z.object({ result: z.array(record) }));
    tool('tally', 'Count the records.', items, (given) => both(given.items.length), z.object({ result: z.int() }));
  }
  return server;
}

serveStdio(make);
