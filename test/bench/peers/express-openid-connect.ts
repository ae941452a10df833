/**
 * The peer as documented: express-openid-connect with sessions in Redis, and http-proxy-middleware with keep-alive.
 * Like Gatehouse, it refreshes expired tokens. Prints a line when it listens.
 */
import { Agent } from 'node:http';
import { RedisStore } from 'connect-redis';
import express from 'express';
import library from 'express-openid-connect';
import { createProxyMiddleware } from 'http-proxy-middleware';
import { Redis } from 'ioredis';

interface Oidc {
  accessToken?: { access_token: string; isExpired(): boolean; refresh(): Promise<unknown> };
  isAuthenticated(): boolean;
  login(options: { returnTo: string }): Promise<void>;
}

/** The members that the library adds to requests and responses. */
const oidcOf = (message: object): Oidc => (message as { oidc: Oidc }).oidc;

const { PORT = '', PUBLIC_URL = '', ISSUER = '', CLIENT_ID = '', CLIENT_SECRET = '' } = process.env;
const { SCOPE = '', SESSION_SECRET = '', REDIS_URL = '', UPSTREAM_URL = '' } = process.env;

const app = express();
app.use(
  library.auth({
    baseURL: PUBLIC_URL,
    issuerBaseURL: ISSUER,
    clientID: CLIENT_ID,
    clientSecret: CLIENT_SECRET,
    secret: SESSION_SECRET,
    authRequired: false,
    authorizationParams: { response_type: 'code', scope: SCOPE, prompt: 'consent' },
    session: { store: new RedisStore({ client: new Redis(REDIS_URL) }) },
    routes: { login: false },
  }),
);
app.get('/sign-in', (_req, res) => oidcOf(res).login({ returnTo: '/session' }));
app.get('/session', (req, res) => void res.json({ signedIn: oidcOf(req).isAuthenticated() }));
app.use(
  '/threads/current',
  library.requiresAuth(),
  async (req, _res, next) => {
    const { accessToken } = oidcOf(req);
    if (accessToken?.isExpired()) await accessToken.refresh();
    next();
  },
  createProxyMiddleware({
    target: UPSTREAM_URL,
    agent: new Agent({ keepAlive: true, maxSockets: 64 }),
    pathRewrite: () => '/1/threads/current',
    on: {
      proxyReq(proxyReq, req) {
        proxyReq.setHeader('authorization', `Bearer ${oidcOf(req).accessToken?.access_token}`);
        proxyReq.removeHeader('cookie');
      },
    },
  }),
);
const server = app.listen(Number(PORT), '127.0.0.1', () => process.stdout.write('ready\n'));
server.keepAliveTimeout = 60_000;
