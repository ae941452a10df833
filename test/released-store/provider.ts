/** The other programs of the stored data, at their addresses: a provider and its platform, a webhook receiver. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import type { ReceivedMessage } from '../support/webhook-receiver.ts';
import { PROVIDER_PORTS, RECEIVER_PORT, URL_OF } from './deployment.ts';

export interface Provider {
  /** The forms that were sent to the token endpoint. */
  tokenRequests: URLSearchParams[];
  revoked: string[];
  /** The messages to the webhook. */
  messages: ReceivedMessage[];
  close(): Promise<void>;
}

const METADATA = {
  issuer: URL_OF.issuer,
  authorization_endpoint: `${URL_OF.issuer}/auth`,
  token_endpoint: `${URL_OF.issuer}/token`,
  revocation_endpoint: `${URL_OF.issuer}/revoke`,
  userinfo_endpoint: `${URL_OF.issuer}/userinfo`,
  jwks_uri: `${URL_OF.issuer}/jwks`,
  response_types_supported: ['code'],
  subject_types_supported: ['public'],
  id_token_signing_alg_values_supported: ['RS256'],
  code_challenge_methods_supported: ['S256'],
};

/** A provider that accepts each refresh token once more. */
export async function startProvider(): Promise<Provider> {
  const tokenRequests: URLSearchParams[] = [];
  const revoked: string[] = [];
  const messages: ReceivedMessage[] = [];
  const issue = (req: IncomingMessage, body: string) => {
    tokenRequests.push(new URLSearchParams(body));
    const number = tokenRequests.length;
    const tokens = { access_token: `access-${number}`, refresh_token: `refresh-${number}` };
    return { ...tokens, token_type: req.headers.dpop ? 'DPoP' : 'Bearer', expires_in: 3_600 };
  };
  const provide = async (req: IncomingMessage, res: ServerResponse) => {
    const body = await text(req);
    if (req.url === '/revoke') revoked.push(new URLSearchParams(body).get('token') ?? '');
    const replies: Record<string, () => object> = {
      '/.well-known/openid-configuration': () => METADATA,
      '/jwks': () => ({ keys: [] }),
      '/token': () => issue(req, body),
      '/userinfo': () => ({ sub: 'imported-1' }),
      '/revoke': () => ({}),
    };
    const reply = replies[req.url ?? ''];
    res.writeHead(reply ? 200 : 404, { 'content-type': 'application/json' }).end(JSON.stringify(reply?.() ?? {}));
  };
  const json = (status: number, content: object) => (_req: IncomingMessage, res: ServerResponse) =>
    void res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(content));
  const receive = async (req: IncomingMessage, res: ServerResponse) => {
    messages.push({ headers: req.headers, body: await text(req) });
    res.writeHead(204).end();
  };
  const servers = await Promise.all([
    listen(PROVIDER_PORTS.issuer, provide),
    listen(PROVIDER_PORTS.platform, json(200, { thread: 'current' })),
    listen(PROVIDER_PORTS.binService, json(404, {})),
    listen(RECEIVER_PORT, receive),
  ]);
  return {
    ...{ tokenRequests, revoked, messages },
    async close() {
      for (const server of servers) server.closeAllConnections();
      await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
    },
  };
}

function listen(port: number, handle: (req: IncomingMessage, res: ServerResponse) => void): Promise<Server> {
  const server = createServer(handle);
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}
