/** The platform's calls that the sandbox invented: a thread by id, the list with paging, and a message. */
import request from 'supertest';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { readSeed } from '../../src/sandbox/seed.ts';
import { type ForeignClient, openConsole, startForeignClient } from './foreign-client.ts';

const apiToken = (name: string) => `sbxt_${name.padEnd(40, '0')}`;
const OWN_IDS = ['THREAD1', 'THREAD2', 'THREAD3', 'THREAD4', 'THREAD5'];
const SEED = {
  users: [
    { login: 'robot@example.test', name: 'Robot <1>', kind: 'service' },
    { login: 'inside@example.test', name: 'Inside', networks: ['192.0.2.0/24'], restrictTokens: true },
  ],
  tokens: [
    { name: 'Reader', user: 'robot@example.test', scopes: ['platform_read_only'], token: apiToken('reader') },
    { name: 'Writer', user: 'robot@example.test', scopes: ['platform_full_access'], token: apiToken('writer') },
    { name: 'Inside', user: 'inside@example.test', scopes: ['platform_full_access'], token: apiToken('inside') },
  ],
  threads: [
    { id: 'PRIVATE1', author: 'user@example.test', title: 'Private', html: '<p>Hush</p>' },
    ...OWN_IDS.map((id, index) => ({
      id,
      author: 'robot@example.test',
      title: `Thread ${index + 1}`,
      html: '<p>Text</p>',
      // The robot's built-in threads are older than these, and the first of these is the newest.
      createdAt: new Date(Date.now() - index * 1_000).toISOString(),
    })),
  ],
};

const LIST = { method: 'GET', path: '/1/threads' } as const;
const ONE = { method: 'GET', path: '/1/threads/THREAD1' } as const;
const MESSAGE = { method: 'POST', path: '/1/threads/THREAD1/messages' } as const;

let client: ForeignClient;
let tokenWithoutScope: string;

beforeAll(async () => {
  const { seed, faults } = readSeed(JSON.stringify(SEED));
  if (seed === undefined) throw new Error(`The seed of this test is wrong: ${faults.join('; ')}`);
  client = await startForeignClient({ seed });
  tokenWithoutScope = (await client.signIn({ scope: 'openid profile' })).access_token;
});
afterAll(() => client.sandbox.close());
beforeEach(() => {
  client.sandbox.faults.clear();
  Object.assign(client.sandbox.rateLimits, { perUserPerMinute: 10_000, perUserPerHour: 10_000, response: 'none' });
});

type Call = { method: 'GET' | 'POST'; path: string };

function send({ method, path }: Call, token: string | undefined, headers: Record<string, string> = {}) {
  const call = request(client.sandbox.platformUrl)[method === 'GET' ? 'get' : 'post'](path).set(headers);
  if (token !== undefined) call.set('Authorization', `Bearer ${token}`);
  return method === 'GET' ? call : call.send({ text: 'Hello' });
}

const get = (path: string, headers: Record<string, string> = {}) =>
  send({ method: 'GET', path }, apiToken('reader'), headers);
const write = (body: string | object, { id = 'THREAD1', type = 'application/json' } = {}) =>
  request(client.sandbox.platformUrl)
    .post(`/1/threads/${id}/messages`)
    .set({ Authorization: `Bearer ${apiToken('writer')}`, 'Content-Type': type })
    .send(body);

describe.each([LIST, ONE, MESSAGE])('$method $path', (call) => {
  it('has the refusals of the current thread', async () => {
    const refusals = [
      { token: undefined, status: 401, error: 'authentication_required', challenge: 'Bearer' },
      { token: 'unknown', status: 401, error: 'invalid_token', challenge: 'Bearer error="invalid_token"' },
      { token: apiToken('inside'), status: 403, error: 'ip_restricted', challenge: undefined },
      {
        token: tokenWithoutScope,
        status: 403,
        error: 'insufficient_scope',
        challenge: `Bearer error="insufficient_scope", scope="${call === MESSAGE ? 'platform_full_access' : 'platform_read_only'}"`,
      },
    ];
    for (const { token, status, error, challenge } of refusals) {
      const response = await send(call, token);
      expect([response.status, response.body, response.headers['www-authenticate']]).toEqual([
        status,
        { error, error_code: status, error_description: expect.any(String) },
        challenge,
      ]);
    }
    const twice = await send({ ...call, path: `${call.path}?access_token=x` }, apiToken('writer'));
    expect([twice.status, twice.body.error]).toEqual([400, 'invalid_request']);
  });

  it('needs a scope that fits, counts towards the limits, and is recorded', async () => {
    client.sandbox.requests.reset();
    const [asReader, asWriter] = [await send(call, apiToken('reader')), await send(call, apiToken('writer'))];
    const written = call === MESSAGE ? 201 : 200;
    expect([asReader.status, asWriter.status]).toEqual([call === MESSAGE ? 403 : 200, written]);
    expect(client.sandbox.requests.count(`${call.method} ${call.path}`, 'platform')).toBe(2);

    Object.assign(client.sandbox.rateLimits, { perUserPerMinute: 1, response: '503' });
    const over = await send(call, apiToken('writer'));
    expect([over.status, over.headers['x-ratelimit-remaining'], over.body]).toEqual([
      503,
      '0',
      { error: 'over_rate_limit', error_code: 503, error_description: 'Over Rate Limit' },
    ]);
  });

  it('has the faults that are set', async () => {
    const { faults } = client.sandbox;
    faults.set({ listener: 'platform', path: call.path, method: call.method, kind: 'unavailable', times: 1 });
    const failed = await send(call, apiToken('writer'));
    expect([failed.status, failed.headers['retry-after']]).toEqual([503, '5']);
    expect((await send(call, apiToken('writer'))).status).toBeLessThan(300);
  });

  it('allows no other method', async () => {
    const response = await request(client.sandbox.platformUrl).put(call.path);
    expect([response.status, response.headers.allow, response.body.error]).toEqual([
      405,
      call.method === 'GET' ? 'GET, HEAD' : 'POST',
      'method_not_allowed',
    ]);
  });
});

describe('the list', () => {
  interface Listed {
    ids: string[];
    next?: string;
    prev?: string;
  }
  const list = async (path: string): Promise<Listed> => {
    const { status, body, headers } = await get(path);
    expect(status).toBe(200);
    const links = [...String(headers.link ?? '').matchAll(/<([^>]+)>; rel="(next|prev)"/g)];
    return {
      ids: (body.threads as { id: string }[]).map(({ id }) => id),
      ...Object.fromEntries(links.map(([, url, rel]) => [rel, url?.replace(client.sandbox.platformUrl, '')])),
    };
  };

  async function pagesFrom(page: Listed, side: 'next' | 'prev'): Promise<Listed[]> {
    const link = page[side];
    return [page, ...(link === undefined ? [] : await pagesFrom(await list(link), side))];
  }

  it('has the threads that the user may see, newest first, without their content', async () => {
    const { body, headers } = await get('/1/threads?limit=50');
    const titles = (body.threads as { id: string; title: string }[]).map(({ title }) => title);
    expect(titles).toEqual([
      ...OWN_IDS.map((_, index) => `Thread ${index + 1}`),
      ...[expect.any(String), 'Settlement report: run times', 'Launch team'],
    ]);
    expect(headers.link).toBeUndefined();
    expect(JSON.stringify(body)).not.toContain('<p>');
  });

  it('leads by Link to its end and back, each thread on one page', async () => {
    const { ids: all } = await list('/1/threads?limit=50');
    for (const limit of [1, 3, all.length - 1]) {
      const first = await list(`/1/threads?limit=${limit}`);
      expect(first.prev).toBeUndefined();
      const forth = await pagesFrom(first, 'next');
      expect(forth.flatMap(({ ids }) => ids)).toEqual(all);

      const back = await pagesFrom(forth.at(-1) ?? first, 'prev');
      expect(back.reverse().flatMap(({ ids }) => ids)).toEqual(all);
    }
  });

  it('has the same pages after threads have been added and changed', async () => {
    const { next = '' } = await list('/1/threads?limit=2');
    const page = await list(next);
    const added = await request(client.sandbox.platformUrl)
      .post('/1/threads/new-document')
      .set('Authorization', `Bearer ${apiToken('writer')}`)
      .send({ title: 'New', content: 'x' });
    await write({ text: 'Changed' }, { id: 'THREAD5' });
    expect(await list(next)).toEqual(page);
    expect((await list('/1/threads')).ids[0]).toBe(added.body.thread.id);
  });

  it('refuses a limit that is no number from 1 to 50, and a cursor that it has not issued to this user', async () => {
    for (const limit of ['0', '51', '-1', '1.5', '1e1', 'x', '', '1&limit=2']) {
      const { status, body } = await get(`/1/threads?limit=${limit}`);
      expect([limit, status, body]).toMatchObject([
        limit,
        400,
        { error_description: expect.stringMatching('1 to 50') },
      ]);
    }
    const foreign = Buffer.from('after:PRIVATE1').toString('base64url');
    const known = Buffer.from('after:THREAD1').toString('base64url');
    for (const cursor of [
      '',
      'x',
      foreign,
      Buffer.from('at:THREAD1').toString('base64url'),
      `${known}&cursor=${known}`,
    ]) {
      const { status, body } = await get(`/1/threads?cursor=${cursor}`);
      expect([cursor, status, body.error]).toEqual([cursor, 400, 'invalid_request']);
    }
  });
});

describe('a thread by id', () => {
  it('has an ETag, and is 304 until a message is added', async () => {
    const first = await get(ONE.path);
    const etag = first.headers.etag ?? '';
    const unchanged = await get(ONE.path, { 'If-None-Match': etag });
    expect([unchanged.status, unchanged.text, unchanged.headers.etag]).toEqual([304, '', etag]);
    expect((await get(ONE.path, { 'If-None-Match': '"another"' })).status).toBe(200);

    await write({ text: 'Changed' });
    const changed = await get(ONE.path, { 'If-None-Match': etag });
    expect([changed.status, changed.headers.etag === etag]).toEqual([200, false]);
  });
});

describe('a message', () => {
  it('is added at the end of the thread, as text, and is the latest change', async () => {
    const { status, body } = await write({ text: ' <script>x</script>\n& more ' });
    const author = { id: expect.any(String), name: 'Robot <1>' };
    expect([status, body]).toEqual([
      201,
      {
        id: expect.any(String),
        thread_id: 'THREAD1',
        author,
        created_usec: expect.any(Number),
        text: '<script>x</script>\n& more',
      },
    ]);
    const { body: changed } = await get(ONE.path);
    expect(changed.html).toMatch(/<p><b>Robot &lt;1&gt;<\/b>: &lt;script&gt;x&lt;\/script&gt;<br>&amp; more<\/p>$/);
    expect(changed.thread.updated_usec).toBe(body.created_usec);
    expect(Object.keys((await get('/1/threads/recent?count=1')).body)).toEqual(['THREAD1']);
  });

  it('is refused if it is not JSON, has no text, or belongs to a thread of others', async () => {
    for (const body of [
      '{}',
      '{"text":""}',
      '{"text":" "}',
      '{"text":1}',
      '[]',
      JSON.stringify({ text: 'x'.repeat(1_000_001) }),
    ]) {
      const { status, body: refusal } = await write(body);
      expect([body.slice(0, 20), status, refusal.error]).toEqual([body.slice(0, 20), 400, 'invalid_request']);
    }
    expect((await write('{')).body.error_description).toBe('The body is not JSON.');
    expect((await write('text=Hello', { type: 'application/x-www-form-urlencoded' })).status).toBe(400);
    const [hidden, unknown] = [
      await write({ text: 'x' }, { id: 'PRIVATE1' }),
      await write({ text: 'x' }, { id: 'NOBODYS' }),
    ];
    expect([hidden.status, hidden.body]).toEqual([404, unknown.body]);
  });

  it('has a body of at most 1 MiB', async () => {
    const bodyOf = (bytes: number) => {
      const empty = '{"text":"x","padding":""}';
      return `${empty.slice(0, -2)}${'x'.repeat(bytes - empty.length)}"}`;
    };
    expect((await write(bodyOf(1024 * 1024))).status).toBe(201);
    const { status, body } = await write(bodyOf(1024 * 1024 + 1));
    expect([status, body.error_description]).toEqual([413, 'The body is larger than 1024 kB.']);
  });
});

it('the console lists the calls, and marks those that the sandbox invented', async () => {
  const { open } = await openConsole(client);
  const { body } = await open('');
  const rows = [...body.matchAll(/<dt><code>(.*?)<\/code><\/dt>\s*<dd>(.*?)<\/dd>/g)];
  expect(rows.map(([, call, words = '']) => `${call}${words.includes('sandbox only') ? ' *' : ''}`)).toEqual([
    'GET /1/users/current',
    'GET /1/threads/current',
    'GET /1/threads/recent',
    'POST /1/threads/new-document',
    'GET /1/threads/{id} *',
    'GET /1/threads *',
    'POST /1/threads/{id}/messages *',
  ]);
});
