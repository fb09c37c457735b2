// A web page that is a host of apps: the host side of the extension's own package, and the official client.
// Between it and the app is a sandbox proxy of another origin. The app's frame has no origin, and reaches no network: its
// policy is the one that the specification sets by default.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import {
  AppBridge, PostMessageTransport, getToolUiResourceUri, isToolVisibilityAppOnly,
} from '@modelcontextprotocol/ext-apps/app-bridge';

const POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
  + "media-src data:; connect-src 'none'";
// A call that the page makes at once, before it is initialized.
const EARLY = '<script>early = app.callTool("details", {month: "May"})</script>';
const IDENTIFIER = 'io.modelcontextprotocol/ui', MIME_TYPE = 'text/html;profile=mcp-app';

window.show = async url => {
  const seen = window.seen = { sizes: [], contexts: [], messages: [], links: [], logged: [], first: [] };
  const capabilities = { extensions: { [IDENTIFIER]: { mimeTypes: [MIME_TYPE] } } };
  const client = new Client({ name: 'host', version: '1' }, { capabilities });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const { tools } = await client.listTools();
  const tool = tools.find(each => getToolUiResourceUri(each));
  seen.appOnly = tools.filter(isToolVisibilityAppOnly).map(each => each.name);
  const { contents: [page] } = await client.readResource({ uri: getToolUiResourceUri(tool) });
  seen.mimeType = page.mimeType;
  seen.meta = page._meta;

  const frame = document.createElement('iframe');
  frame.sandbox = 'allow-scripts allow-same-origin';
  frame.style.border = page._meta?.ui?.prefersBorder ? '1px solid gray' : '0';
  document.body.append(frame);
  addEventListener('message', ({ data }) => { if (seen.first.length < 3) seen.first.push(data.method); });
  const bridge = window.bridge = new AppBridge(
    client, { name: 'host', version: '1' }, { openLinks: {}, serverTools: {}, updateModelContext: { text: {} } },
    { hostContext: { theme: 'dark', styles: { variables: { '--font-sans': 'serif' } } } },
  );
  bridge.addEventListener('sizechange', size => {
    seen.sizes.push(size);
    frame.style.height = `${size.height}px`;
  });
  bridge.onupdatemodelcontext = async params => { seen.contexts.push(params); return {}; };
  bridge.onmessage = async params => { seen.messages.push(params); return {}; };
  bridge.onopenlink = async params => { seen.links.push(params); return {}; };
  bridge.addEventListener('loggingmessage', ({ level, data }) => seen.logged.push([level, data]));
  const initialized = new Promise(resolve => bridge.addEventListener('initialized', resolve));
  const ready = new Promise(resolve => bridge.addEventListener('sandboxready', resolve));
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.src = `http://localhost:${location.port}/proxy`;
  await ready;
  const html = `<meta http-equiv="Content-Security-Policy" content="${POLICY}">${page.text}${EARLY}`;
  await bridge.sendSandboxResourceReady({ html, sandbox: 'allow-scripts' });
  await initialized;
  seen.app = bridge.getAppVersion();
  await bridge.sendToolInput({ arguments: {} });
  await bridge.sendToolResult(await client.callTool({ name: tool.name, arguments: {} }));
};
