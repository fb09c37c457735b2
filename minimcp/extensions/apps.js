// `app` talks to the host that shows the page: JSON-RPC between two windows.
const app = (() => {
  const handlers = {}, waiting = {}, root = document.documentElement, prefix = "ui/notifications/";
  let last = 0;
  const post = message => parent.postMessage({jsonrpc: "2.0", ...message}, "*");
  const notify = (method, params = {}) => post({method, params});
  const send = (method, params = {}) => new Promise(resolve => {
    waiting[++last] = resolve;
    post({id: last, method, params});
  });
  const blocks = given => typeof given === "string" ? [{type: "text", text: given}] : given;

  function setContext(changed = {}) {
    const {theme, styles} = Object.assign(app.context, changed);
    if (theme) root.dataset.theme = root.style.colorScheme = theme;
    for (const [name, value] of Object.entries(styles?.variables ?? {})) root.style.setProperty(name, value);
  }

  const sendSize = () =>
    notify(prefix + "size-changed", {width: innerWidth, height: Math.ceil(root.getBoundingClientRect().height)});

  async function answer({id, method, params}) {
    try {
      if (method === "ui/resource-teardown") await handlers.teardown?.(params);
      else if (method !== "ping") throw {code: -32601, message: "Method not found"};
      post({id, result: {}});
    } catch ({code = -32603, message}) {
      post({id, error: {code, message}});
    }
  }

  addEventListener("message", ({source, data}) => {
    if (source !== parent || data?.jsonrpc !== "2.0") return;
    const {id, method, params, result, error} = data, name = method?.replace(prefix, "");
    if (method && id !== undefined) answer(data);
    else if (method) {
      if (name === "host-context-changed") setContext(params);
      handlers[name]?.(params);
    } else if (waiting[id]) {
      waiting[id](error ? Promise.reject(Object.assign(new Error(), error)) : result);
      delete waiting[id];
    }
  });

  const ready = new Promise(loaded => addEventListener("DOMContentLoaded", loaded)).then(async () => {
    app.host = await send("ui/initialize", {
      protocolVersion: "2026-01-26", appInfo: {name: document.title || "app", version: "1"},
      appCapabilities: {availableDisplayModes: ["inline"]},
    });
    setContext(app.host.hostContext);
    notify(prefix + "initialized");
    new ResizeObserver(sendSize).observe(root);
  });
  const request = (...given) => ready.then(() => send(...given));

  return {
    context: {}, request, notify,
    on(name, handler) { handlers[name] = handler; },
    async callTool(name, args = {}) {
      const result = await request("tools/call", {name, arguments: args});
      if (result.isError) throw Object.assign(new Error(result.content[0]?.text), {result});
      return result;
    },
    sendMessage: content => request("ui/message", {role: "user", content: blocks(content)}),
    updateModelContext: content => request("ui/update-model-context", {content: blocks(content)}),
    openLink: url => request("ui/open-link", {url}),
  };
})();
