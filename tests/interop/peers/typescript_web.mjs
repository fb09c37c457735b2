// What a server of the TypeScript SDK needs to listen with nothing but node: sessions, and the two SDKs' requests.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

// What lasts between requests where each has a server of its own (2026-07-28): what has grown, and who is told.
export class Shared {
  grown = false;
  notify = null;
}

export function listen(serve) {
  const server = createServer((request, response) => {
    Promise.resolve(serve(request, response)).catch((error) => {
      console.error(error);
      response.destroy();
    });
  });
  server.listen(Number(process.env.PORT), '127.0.0.1');
}

// Finds the transport of a session, or begins one, and hands it on.
export function withSessions(make, Transport) {
  const sessions = new Map();
  return async (id, use) => {
    let transport = sessions.get(id ?? undefined);
    if (transport === undefined) {
      transport = new Transport({
        sessionIdGenerator: () => randomUUID(),
        onsessioninitialized: (opened) => sessions.set(opened, transport),
      });
      transport.onclose = () => sessions.delete(transport.sessionId);
      await make().connect(transport);
    }
    return use(transport);
  };
}

// HTTP+SSE: the stream at /sse, messages at /messages.
export function listenOlder(make, Transport) {
  const sessions = new Map();
  listen(async (request, response) => {
    if (request.method === 'GET') {
      const transport = new Transport('/messages', response);
      sessions.set(transport.sessionId, transport);
      await make().connect(transport);
    } else if (request.url.startsWith('/messages')) {
      const id = new URL(request.url, 'http://localhost').searchParams.get('sessionId');
      await sessions.get(id).handlePostMessage(request, response);
    } else {
      response.writeHead(405).end();
    }
  });
}

export function toRequest(incoming, outgoing) {
  const stop = new AbortController();
  outgoing.on('close', () => stop.abort());
  const body = ['GET', 'HEAD'].includes(incoming.method) ? undefined : Readable.toWeb(incoming);
  return new Request(`http://${incoming.headers.host}${incoming.url}`, {
    method: incoming.method, headers: incoming.headers, body, duplex: 'half', signal: stop.signal,
  });
}

export async function toResponse(answer, outgoing) {
  outgoing.writeHead(answer.status, Object.fromEntries(answer.headers));
  outgoing.flushHeaders();
  if (answer.body === null) {
    outgoing.end();
    return;
  }
  // A client that gives a call up closes the connection: that is no error.
  await pipeline(Readable.fromWeb(answer.body), outgoing).catch(() => {});
}
