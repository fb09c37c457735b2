// The sandbox proxy of a host of apps: loads what the host sends, and passes all other messages on, both ways.

const app = document.createElement('iframe');
app.style = 'position: fixed; inset: 0; border: 0; width: 100%; height: 100%';
addEventListener('message', ({ source, data }) => {
  if (source === app.contentWindow) parent.postMessage(data, '*');
  else if (data.method !== 'ui/notifications/sandbox-resource-ready') app.contentWindow.postMessage(data, '*');
  else {
    app.sandbox = data.params.sandbox;
    app.srcdoc = data.params.html;
    document.body.append(app);
  }
});
parent.postMessage({ jsonrpc: '2.0', method: 'ui/notifications/sandbox-proxy-ready', params: {} }, '*');
