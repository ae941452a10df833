/** A seed file declares entries that exist at every start, and all its faults are reported at once. */
import { describe, expect, it } from 'vitest';
import { readSeed } from '../../src/sandbox/seed.ts';
import { CALLBACK_URL, createBrowser, startForeignClient } from './foreign-client.ts';

const API_TOKEN = 'sbxt_this-token-is-the-same-every-morning-0001';

const VALID_SEED = {
  users: [
    { login: 'Lena@example.test', name: 'Lena Voss', groups: ['staff'], password: 'lena-has-her-own' },
    { login: 'user@example.test', name: 'Una Seeded' },
    { login: 'robot@example.test', name: 'Report robot', kind: 'service' },
  ],
  apps: [
    {
      clientId: 'team-board',
      clientSecret: 'a secret of the whole team',
      callbackUrls: [CALLBACK_URL],
      settings: { accessTokenSeconds: 5, refreshPolicy: 'reusable' },
    },
  ],
  tokens: [{ name: 'Nightly', user: 'robot@example.test', scopes: ['platform_read_only'], token: API_TOKEN }],
  threads: [{ id: 'TEAMPLAN', author: 'robot@example.test', title: 'Plan', html: '<h1>Plan</h1>', current: true }],
};

describe('a seed', () => {
  it('adds users, apps, tokens and threads to the built-in ones', async () => {
    const { seed } = readSeed(JSON.stringify(VALID_SEED));
    if (seed === undefined) throw new Error('the seed of this test is wrong');
    const { sandbox, thread } = await startForeignClient({ seed });
    expect(sandbox.accounts.map(({ login }) => login)).toEqual([
      'user@example.test',
      'second@example.test',
      'admin@example.test',
    ]);

    const response = await thread(API_TOKEN);
    expect(await response.json()).toMatchObject({ thread: { id: 'TEAMPLAN', title: 'Plan' }, html: '<h1>Plan</h1>' });

    const query = new URLSearchParams({
      client_id: 'team-board',
      response_type: 'code',
      scope: 'openid',
      redirect_uri: CALLBACK_URL,
      code_challenge: 'x'.repeat(43),
      code_challenge_method: 'S256',
    });
    const browser = createBrowser();
    const login = await browser.get(`${sandbox.issuer}/authorize?${query}`);
    const consent = await browser.submit(login, { login: 'lena@example.test', password: 'lena-has-her-own' });
    expect(consent.body).toContain('Lena Voss');
    expect((await createBrowser().get(sandbox.issuer)).body).toContain('Una Seeded');

    await sandbox.close();
  });

  it('has the same ids, secrets and tokens at every start', async () => {
    const { threads, ...rest } = VALID_SEED;
    const seedWithoutThreadId = { ...rest, threads: [{ ...threads[0], id: undefined }] };
    const start = async () => {
      const { seed } = readSeed(JSON.stringify(seedWithoutThreadId));
      if (seed === undefined) throw new Error('the seed of this test is wrong');
      const { sandbox, thread } = await startForeignClient({ seed });
      const { thread: current } = (await (await thread(API_TOKEN)).json()) as { thread: Record<string, unknown> };
      const refresh = await fetch(`${sandbox.issuer}/token`, {
        method: 'POST',
        headers: { authorization: `Basic ${btoa('team-board:a+secret+of+the+whole+team')}` },
        body: new URLSearchParams({ grant_type: 'refresh_token', refresh_token: 'none' }),
      });
      await sandbox.close();
      return [current.id, current.author_id, refresh.status, ((await refresh.json()) as { error: string }).error];
    };
    const first = await start();
    expect(first).toEqual([expect.stringMatching(/^\w{12}$/), expect.stringMatching(/^sbx-/), 400, 'invalid_grant']);
    expect(await start()).toEqual(first);
  });

  it('cannot replace the sandbox’s own registrations', () => {
    const apps = ['sandbox-pages', 'sandbox-platform', 'sandbox-bin-lookup-service', 'sandbox-demo-app'].map(
      (clientId) => ({
        ...VALID_SEED.apps[0],
        clientId,
      }),
    );
    expect(readSeed(JSON.stringify({ apps })).faults).toEqual(
      apps.map((_, index) => `apps[${index}].clientId: is reserved by the sandbox: choose another`),
    );
  });

  it('with faults reports each of them with its path', () => {
    const { faults } = readSeed(
      JSON.stringify({
        users: [
          { login: 'no address', name: '' },
          { login: 'a@example.test', name: 'A', networks: ['x'], totpSecret: '1' },
        ],
        apps: [
          { clientId: 'a b', callbackUrls: ['http://x.example/cb', 'https://*/'], scopes: ['all'] },
          { clientId: 'keyed', callbackUrls: [CALLBACK_URL], tokenEndpointAuthMethod: 'private_key_jwt' },
        ],
        tokens: [{ name: 'x', user: 'a@example.test', scopes: [], token: 'short' }],
        threads: [{ author: 'a@example.test', title: 'x', html: 'x', colour: 'red' }],
        sneaky: true,
      }),
    );
    const paths = faults?.map((fault) => fault.split(':')[0]);
    for (const path of [
      'users[0].login',
      'users[0].name',
      'users[1].networks[0]',
      'users[1].totpSecret',
      'apps[0].clientId',
      'apps[0].callbackUrls[0]',
      'apps[0].callbackUrls[1]',
      'apps[0].scopes[0]',
      'tokens[0].scopes',
      'tokens[0].token',
      'threads[0]',
      'the file',
    ]) {
      expect(paths).toContain(path);
    }
  });

  it('of the wrong shape reports faults in plain words', () => {
    const apps = [{ clientId: 5, settings: { colour: 1 } }];
    const threads = [{ author: 'user@example.test', title: 'x', html: 'x', current: 'yes' }, null];
    expect(readSeed(JSON.stringify({ users: 'none', apps, threads })).faults).toEqual([
      'users: must be a list',
      'apps[0].clientId: must be text',
      'apps[0].callbackUrls: is missing',
      'apps[0].settings: has no field colour: check the spelling',
      'threads[0].current: must be true or false',
      'threads[1]: must be an object',
    ]);
  });

  it('that contradicts itself reports the paths', () => {
    const duplicates = {
      ...VALID_SEED,
      users: [],
      tokens: [VALID_SEED.tokens[0], VALID_SEED.tokens[0]],
      apps: [VALID_SEED.apps[0], VALID_SEED.apps[0]],
    };
    expect(readSeed(JSON.stringify(duplicates)).faults).toEqual([
      'apps[1]: is a duplicate',
      'tokens[1]: is a duplicate',
      'tokens[0].user: there is no user robot@example.test',
      'tokens[1].user: there is no user robot@example.test',
      'threads[0].author: there is no user robot@example.test',
    ]);

    const { threads, users } = VALID_SEED;
    expect(
      readSeed(JSON.stringify({ users, threads: [threads[0], { ...threads[0], id: 'TEAMPLAN2' }] })).faults,
    ).toEqual(['threads[1].current: robot@example.test already has a current thread']);
    expect(readSeed('{').faults).toEqual([expect.stringMatching(/^It is not JSON: /)]);
  });

  it('can leave out the built-in users', async () => {
    const { seed } = readSeed(
      JSON.stringify({ builtInUsers: false, users: [{ login: 'only@example.test', name: 'Only' }] }),
    );
    if (seed === undefined) throw new Error('the seed of this test is wrong');
    const { sandbox } = await startForeignClient({ seed });
    expect(sandbox.accounts.map(({ login }) => login)).toEqual(['only@example.test']);

    await sandbox.close();
  });
});
