/** `connections import` while processes run: tries each token once, and can be killed and run again. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, type TestContext, test } from 'vitest';
import { type Fleet, type FleetUser, LOGINS, type StoreKind, startFleet } from '../../support/fleet.ts';
import { skipWithout } from '../../support/missing.ts';
import { runCommandProcess, startProgram } from '../../support/program.ts';
import { missingRedis } from '../../support/redis-server.ts';
import { runCommand } from '../../support/terminal.ts';
import { until } from '../../support/until.ts';
import { createAdministrator } from '../relay/service.ts';

for (const kind of ['SQLite', 'Redis'] satisfies StoreKind[]) {
  describe(`on ${kind}`, () => {
    const missing = kind === 'Redis' ? missingRedis : undefined;
    let fleet: Fleet;
    let people: FleetUser[];
    let file: string;
    let tokens: string[];
    beforeAll(async () => {
      if (missing) return;
      fleet = await startFleet({ kind, processes: 1 });
      file = join(fleet.dataDirectory, '..', 'grants.jsonl');
      people = [];
      for (const login of LOGINS) people.push(await fleet.signIn(login));
    });
    afterAll(() => fleet?.close());

    /** Takes the refresh tokens out of the vault: another system has them, and Gatehouse none. */
    const moveOut = async () => {
      tokens = [];
      for (const { userId } of people) {
        const stored = await fleet.storage.grants.loadStored(userId, 'platform');
        if (!stored || 'unreadable' in stored) throw new Error('There is no grant.');
        tokens.push(fleet.tokenEndpoint.latestOf(userId)?.refreshToken ?? '');
        await fleet.storage.grants.remove(userId, 'platform', stored.version);
      }
      const entries = people.map(({ userId: id }, at) => ({ user: { id }, app: 'platform', refreshToken: tokens[at] }));
      writeFileSync(file, entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''));
    };
    beforeEach(async () => {
      if (!missing) await moveOut();
    });
    const check = (name: string, work: () => Promise<void>) =>
      test(name, async (context: TestContext) => {
        skipWithout(context, missing);
        await work();
      });
    const checkOnce: typeof check = kind === 'SQLite' ? check : () => undefined;

    const run = async (runIt: typeof runCommandProcess = runCommand) => {
      const { status, stdout, stderr } = await runIt(['connections', 'import', file, '--json'], fleet.env);
      expect(stderr).toBe('');
      for (const token of tokens) expect(stdout).not.toContain(token);
      return { status, ...JSON.parse(stdout) };
    };
    const usesOf = (token: string) =>
      fleet.tokenEndpoint.uses.filter(({ refreshToken }) => refreshToken === token).length;
    const statusOf = async (person: FleetUser) => (await fleet.thread(fleet.member(0), person)).status;
    const startAndKill = async (reached: () => Promise<unknown>) => {
      const program = startProgram(['node', 'src/cli.ts', 'connections', 'import', file], fleet.env);
      await reached();
      program.signal('SIGKILL');
      await program.ended;
    };

    check(
      'R111: two imports of one file at once use each refresh token once, and every user is connected',
      async () => {
        const reports = await Promise.all([run(runCommandProcess), run(runCommandProcess)]);
        for (const report of reports) {
          expect(report).toMatchObject({ status: 0, failures: [] });
          expect(report.imported + report.alreadyConnected).toBe(people.length);
        }
        expect(tokens.map(usesOf)).toEqual([1, 1, 1]);
        for (const person of people) expect(await statusOf(person)).toBe(200);
      },
    );

    check('R111: after kill -9 the next start settles what was sealed, and the import can be run again', async () => {
      const calls = fleet.tokenEndpoint.callCount();
      const release = fleet.sandbox.faults.set({
        ...{ listener: 'identity-provider', path: '/token', kind: 'hold' },
        until: new Promise(() => undefined),
      });
      await startAndKill(() => until(() => fleet.tokenEndpoint.callCount() === calls + people.length));
      release();
      const member = fleet.member(0);
      await member.kill();
      await member.start();
      const isConnected = async ({ userId }: FleetUser) => (await fleet.storage.readGrant(userId)).accessToken !== '';
      for (const person of people) await until(() => isConnected(person));
      expect(await run()).toMatchObject({ status: 0, imported: 0, alreadyConnected: people.length });
      for (const person of people) expect(await statusOf(person)).toBe(200);
    });

    checkOnce('R111: the admin API and the command at once use each refresh token once', async () => {
      const admin = await createAdministrator(fleet, fleet.storage);
      const entries = people.map(({ userId: id }, at) => ({ user: { id }, app: 'platform', refreshToken: tokens[at] }));
      const [{ status, json }, report] = await Promise.all([
        admin.call('POST', '/connections/import', { entries }),
        // As a process it comes a little later: that the API has imported some is looked for below.
        run(runCommandProcess),
      ]);
      expect([status, json.failures, report.failures]).toEqual([200, [], []]);
      expect(tokens.map(usesOf)).toEqual([1, 1, 1]);
      expect((await admin.call('POST', '/connections/import', { entries })).json).toMatchObject({
        alreadyConnected: people.length,
      });
      expect((await admin.call('GET', '/audit?event=connection.imported&limit=10')).json.items).toContainEqual(
        expect.objectContaining({ actor: expect.objectContaining({ kind: 'admin_token' }) }),
      );
      for (const person of people) expect(await statusOf(person)).toBe(200);
    });

    // It waits half a minute, and no store has a part in that.
    checkOnce(
      'R111: a provider that limits its calls (429) in the middle is waited for, and none is reported',
      async () => {
        fleet.sandbox.faults.set({
          ...{ listener: 'identity-provider', path: '/token', kind: 'response', status: 429, times: 1 },
          ...{ headers: { 'retry-after': '1' }, body: { error: 'slow_down' } },
        });
        expect(await run()).toMatchObject({
          status: 0,
          imported: people.length,
          unchecked: 0,
          refused: 0,
          failures: [],
        });
        // One was sent twice: the provider did not use it the first time.
        expect(tokens.map(usesOf).toSorted()).toEqual([1, 1, 2]);
        for (const person of people) expect(await statusOf(person)).toBe(200);
      },
    );

    checkOnce(
      'R111: where kill -9 lost a response that the provider gives once, the report names that user alone',
      async () => {
        const held = fleet.tokenEndpoint.holdNext();
        await startAndKill(async () => {
          await held.prepared;
          // The other responses arrive.
          await until(async () => {
            const grants = await Promise.all(people.map(({ userId }) => fleet.storage.readGrant(userId)));
            return grants.filter(({ accessToken }) => accessToken !== '').length === people.length - 1;
          });
        });
        held.release();
        const report = await run();
        expect(report).toMatchObject({ status: 1, imported: 0, alreadyConnected: people.length - 1, refused: 1 });
        expect(report.failures).toMatchObject([{ result: 'refused', cause: 'response_lost', app: 'platform' }]);
        const used = fleet.tokenEndpoint.uses.length;
        expect((await run()).failures).toEqual(report.failures);
        expect(fleet.tokenEndpoint.uses.length).toBe(used);
      },
    );
  });
}
