/** A webhook receiver that records messages, and whose response a test sets. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { signatureOf } from '../../src/gatehouse/webhooks/delivery.ts';

export interface ReceivedMessage {
  headers: IncomingHttpHeaders;
  body: string;
}

export type Receiver = Awaited<ReturnType<typeof startReceiver>>;

export async function startReceiver() {
  const received: ReceivedMessage[] = [];
  let response = { status: 204, body: '' };
  const server = createServer(async (req, res) => {
    let body = '';
    for await (const chunk of req) body += chunk;
    received.push({ headers: req.headers, body });
    res.writeHead(response.status).end(response.body);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    received,
    setResponse(status: number, body = ''): void {
      response = { status, body };
    },
    close(): void {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Returns the messages so far. @throws Error if one is not signed with this secret */
export function signedMessages(
  { received }: Pick<Receiver, 'received'>,
  secret: string,
): { type: string; timestamp: string; data: object }[] {
  return received.map((message) => {
    if (!isSigned(message, secret)) throw new Error(`Not signed with the secret of the webhook: ${message.body}`);
    return JSON.parse(message.body);
  });
}

/** Checks a message as a receiver with this secret would: any of the signatures may match. */
export function isSigned({ headers, body }: ReceivedMessage, secret: string): boolean {
  const [id, time] = [String(headers['webhook-id']), String(headers['webhook-timestamp'])];
  return String(headers['webhook-signature'])
    .split(' ')
    .includes(signatureOf(secret, id, time, body));
}
