// Checks of our server by the command line of the MCP Inspector: one process, and so one session, for each.
//
// Usage: inspector_client.mjs REVISION COMMAND... (or URL). Prints one JSON object: the revision and, for each
// check, true or what went wrong.

import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

const [, ...command] = process.argv.slice(2);
const packageFile = createRequire(import.meta.url).resolve("@modelcontextprotocol/inspector/package.json");
const inspector = join(dirname(packageFile), "clients/launcher/build/index.js");
const UNICODE = "Grüße, 世界 \u{1f600} \u2028 end";

async function run(...options) {
  const line = [inspector, "--cli", ...command, ...options];
  try {
    const running = promisify(execFile)(process.execPath, line, { timeout: 60000 });
    // It does not end as long as it could be told something.
    running.child.stdin.end();
    const { stdout } = await running;
    return { code: 0, result: JSON.parse(stdout) };
  } catch (error) {
    if (typeof error.code !== "number") throw error;
    return { code: error.code, said: error.stdout + error.stderr };
  }
}

async function result(...options) {
  const done = await run(...options);
  if (done.code) throw new Error(done.said);
  return done.result;
}

const call = (name, ...pairs) =>
  result("--method", "tools/call", "--tool-name", name, ...pairs.flatMap((pair) => ["--tool-arg", pair]));

function expect(got, wanted) {
  const [left, right] = [JSON.stringify(got), JSON.stringify(wanted)];
  if (left !== right) throw new Error(`got ${left}, expected ${right}`);
}

// What only 2025-11-25 has at the same time: icons of tools, and a method that sets the level.
async function agreed() {
  const { tools } = await result("--method", "tools/list");
  const icons = tools.find((tool) => tool.name === "touch").icons;
  const level = await run("--method", "logging/setLevel", "--log-level", "debug");
  return icons && !level.code ? "2025-11-25" : "another";
}

const checks = {
  list: async () => {
    const { tools } = await result("--method", "tools/list");
    expect(tools.find((tool) => tool.name === "echo").inputSchema.required, ["text"]);
    expect(new Set(tools.map((tool) => tool.name)).has("count"), true);
  },
  "strict schemas": async () => {
    expect((await run("--method", "tools/list", "--strict")).code, 0);
  },
  echo: async () => expect((await call("echo", `text=${UNICODE}`)).content[0].text, UNICODE),
  add: async () => expect((await call("add", "a=19", "b=23")).content[0].text, "42"),
  record: async () => {
    const got = await call("weather", "city=Tromsø");
    expect(got.structuredContent, { place: { city: "Tromsø", tags: ["å", "b"] }, degrees: 21.5 });
  },
  image: async () => expect((await call("image")).content[0].mimeType, "image/png"),
  progress: async () => expect((await call("count", "n=25")).content[0].text, "25"),
  "tool error": async () => {
    const done = await run("--method", "tools/call", "--tool-name", "fail");
    expect(JSON.stringify(done).includes("this tool fails"), true);
  },
  "unknown tool": async () => {
    expect((await run("--method", "tools/call", "--tool-name", "no-such-tool")).code > 0, true);
  },
  resources: async () => {
    const { resources } = await result("--method", "resources/list");
    expect(resources.map((each) => each.uri).sort().slice(0, 2), ["note://all", "note://pixel"]);
    const { contents } = await result("--method", "resources/read", "--uri", "note://all");
    expect(contents[0].text, "alle: å");
  },
  templates: async () => {
    const { resourceTemplates } = await result("--method", "resources/templates/list");
    expect(resourceTemplates.some((each) => each.uriTemplate === "note://by-id/{number}"), true);
    const { contents } = await result("--method", "resources/read", "--uri", "note://by-id/7");
    expect(contents[0].text, "note 7");
  },
  "no resource": async () => {
    expect((await run("--method", "resources/read", "--uri", "note://nowhere")).code > 0, true);
  },
  prompts: async () => {
    const { prompts } = await result("--method", "prompts/list");
    expect(prompts.some((each) => each.name === "greet"), true);
    const got = await result("--method", "prompts/get", "--prompt-name", "greet", "--prompt-args", "name=Åse");
    expect(got.messages[0].content.text, "Greet Åse in a plain tone");
  },
};

const results = {};
await Promise.all(["a", "b"].map(async (_, lane) => {
  for (const [name, check] of Object.entries(checks).filter((_, number) => number % 2 === lane)) {
    try {
      await check();
      results[name] = true;
    } catch (error) {
      results[name] = String(error.message ?? error).slice(0, 600);
    }
  }
}));
console.log(JSON.stringify({ revision: await agreed(), checks: results }));
