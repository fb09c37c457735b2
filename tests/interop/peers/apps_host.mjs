// Opens the host page in Chromium, and looks at what the app in it draws.
//
// Usage: apps_host.mjs CHROMIUM SERVER PORT PICTURE. The page is served at the port. Prints one JSON object of what was
// seen, and leaves a screenshot in the file.

import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { chromium } from 'playwright-core';

const [executablePath, url, port, picture] = process.argv.slice(2);
const entry = fileURLToPath(new URL('apps_page.mjs', import.meta.url));
const { outputFiles: [bundle] } = await build({ entryPoints: [entry], bundle: true, format: 'iife', write: false });
const files = {
  '/': ['text/html', '<!DOCTYPE html><body><script src="host.js"></script>'],
  '/host.js': ['text/javascript', bundle.text],
  '/proxy': ['text/html', '<!DOCTYPE html><body><script src="proxy.js"></script>'],
  '/proxy.js': ['text/javascript', await readFile(new URL('apps_proxy.mjs', import.meta.url))],
};
const asked = [];
const pages = createServer((request, response) => {
  asked.push(request.url);
  const [type, body] = files[request.url] ?? ['text/plain', 'something'];
  response.setHeader('Content-Type', type);
  response.setHeader('Access-Control-Allow-Origin', '*');
  response.end(body);
}).listen(Number(port), '127.0.0.1');

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
const watch = setTimeout(() => browser.close(), 60_000);  // then whatever is waited for fails
try {
  const page = await browser.newPage({ viewport: { width: 640, height: 420 } });
  page.setDefaultTimeout(20_000);
  const complaints = [];
  page.on('pageerror', error => complaints.push(String(error)));
  await page.goto(`http://127.0.0.1:${port}/`);
  await page.evaluate(target => window.show(target), url);
  const app = page.frames().find(each => each.parentFrame()?.parentFrame());
  const bars = () => app.locator('button').allTextContents();
  const found = {};
  await app.locator('button').first().waitFor();
  found.bars = await bars();
  found.early = await app.evaluate(() => early.then(result => result.content[0].text));

  await app.getByText('May:').click();
  await app.getByText('May: 21 tea, 35 coffee').waitFor();
  found.details = await app.locator('#details').textContent();
  await page.waitForFunction(() => seen.contexts.length && seen.sizes.length);
  await page.screenshot({ path: picture });

  // The same message from another window than the host's, which changes nothing, and then from the host's.
  await app.evaluate(() => {
    window.came = new Promise(done => addEventListener('message', ({ data }) => {
      if (data.params?.structuredContent?.Stranger) done();
    }));
  });
  await page.evaluate(() => new Promise(done => {
    const stranger = document.createElement('iframe');
    stranger.srcdoc = `<script>
      parent.frames[0].frames[0].postMessage({jsonrpc: '2.0', method: 'ui/notifications/tool-result',
                                     params: {structuredContent: {Stranger: 1}}}, '*');
      parent.sent();</scr` + 'ipt>';
    window.sent = done;
    document.body.append(stranger);
  }));
  await app.evaluate(() => window.came);
  found.afterStranger = await bars();
  await page.evaluate(() => bridge.sendToolResult({ content: [], structuredContent: { July: 7 } }));
  await app.getByText('July: 7').waitFor();
  found.afterHost = await bars();

  found.theme = await app.evaluate(() => [document.documentElement.dataset.theme,
    getComputedStyle(document.documentElement).colorScheme, app.context.theme,
    document.documentElement.style.getPropertyValue('--font-sans')]);
  await page.evaluate(() => bridge.setHostContext({ theme: 'light' }));
  await app.waitForFunction(() => document.documentElement.dataset.theme === 'light');
  found.failed = await app.evaluate(() => Promise.all([
    app.callTool('no such tool').catch(error => error.constructor.name),
    app.callTool('details', { month: 'Yule' }).catch(error => error.result.isError),
  ]));
  await app.evaluate(() => Promise.all([app.sendMessage('Why?'), app.openLink('https://example.com/')]));
  await app.evaluate(() => app.notify('notifications/message', { level: 'info', data: 'drawn' }));
  await page.waitForFunction(() => seen.logged.length);
  found.torn = await page.evaluate(() => bridge.teardownResource({}));

  const before = asked.length;
  found.reached = await app.evaluate(async target => [
    await fetch(target).then(() => 'fetch', () => ''),
    await new Promise(done => {
      const image = new Image();
      image.onload = () => done('image');
      image.onerror = () => done('');
      image.src = target;
    }),
  ], `http://127.0.0.1:${port}/spy`);
  found.asked = asked.slice(before);
  found.control = await page.evaluate(target => fetch(target).then(each => each.status), `http://127.0.0.1:${port}/spy`);
  console.log(JSON.stringify({ ...found, complaints, ...await page.evaluate(() => seen) }));
} finally {
  clearTimeout(watch);
  await browser.close();
  pages.close();
}
