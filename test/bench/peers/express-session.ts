/**
 * A typical self-built stack: express-session, connect-redis, ioredis and undici. Its sign-in only stores a token in
 * the session, because only relaying is measured. Prints a line when it listens.
 */
import { RedisStore } from 'connect-redis';
import express from 'express';
import session from 'express-session';
import { Redis } from 'ioredis';
import { Pool } from 'undici';

declare module 'express-session' {
  interface SessionData {
    accessToken: string;
  }
}

const { PORT = '', SESSION_SECRET = '', REDIS_URL = '', UPSTREAM_URL = '', ACCESS_TOKEN = '' } = process.env;
const pool = new Pool(UPSTREAM_URL, { connections: 64, pipelining: 1 });

const app = express();
app.use(
  session({
    store: new RedisStore({ client: new Redis(REDIS_URL) }),
    secret: SESSION_SECRET,
    resave: false,
    saveUninitialized: false,
  }),
);
app.get('/sign-in', (req, res) => {
  req.session.accessToken = ACCESS_TOKEN;
  res.redirect('/session');
});
app.get('/session', (req, res) => void res.json({ signedIn: req.session.accessToken !== undefined }));
app.get('/threads/current', async (req, res) => {
  const { accessToken } = req.session;
  if (accessToken === undefined) return void res.sendStatus(401);
  const headers = { authorization: `Bearer ${accessToken}` };
  const response = await pool.request({ path: '/1/threads/current', method: 'GET', headers });
  const body = await response.body.text();
  res.status(response.statusCode).type('application/json').send(body);
});
const server = app.listen(Number(PORT), '127.0.0.1', () => process.stdout.write('ready\n'));
server.keepAliveTimeout = 60_000;
