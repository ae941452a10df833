/** `connections import` while processes run: tries each token once, and can be killed and run again. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, type TestContext, test } from 'vitest';
import { type Fleet, type FleetUser, LOGINS, type StoreKind, startFleet } from '../../support/fleet.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { runCommandProcess, startProgram } from '../../support/program.ts';
import { missingRedis } from '../../support/redis-server.ts';
import { runCommand } from '../../support/terminal.ts';
import { until } from '../../support/until.ts';
import { createAdministrator } from '../relay/service.ts';

for (const kind of ['SQLite', 'Redis'] satisfies StoreKind[]) {
  describe(`on ${kind}`, () => {
    const missing = kind === 'Redis' ? missingRedis : undefined;
    let fleet: Fleet;
    let users: FleetUser[];
    let file: string;
    let tokens: string[];
    beforeAll(async () => {
      if (missing) return;
      fleet = await startFleet({ kind, processes: 1 });
      file = join(fleet.dataDirectory, '..', 'grants.jsonl');
      users = [];
      for (const login of LOGINS) users.push(await fleet.signIn(login));
    });
    afterAll(() => fleet?.close());

    /** Removes the grants from the storage, and writes their refresh tokens to the file, as another system would. */
    const moveGrantsToFile = async () => {
      tokens = [];
      for (const { userId } of users) {
        const stored = await fleet.storage.grants.loadStored(userId, 'platform');
        if (!stored || 'unreadable' in stored) throw new Error('There is no grant.');
        tokens.push(fleet.tokenEndpoint.latestOf(userId)?.refreshToken ?? '');
        await fleet.storage.grants.remove(userId, 'platform', stored.version);
      }
      const entries = users.map(({ userId: id }, at) => ({ user: { id }, app: 'platform', refreshToken: tokens[at] }));
      writeFileSync(file, entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''));
    };
    beforeEach(async () => {
      if (!missing) await moveGrantsToFile();
    });
    const check = (name: string, work: () => Promise<void>) =>
      test(name, async (context: TestContext) => {
        skipIfMissing(context, missing);
        await work();
      });
    const checkOnce: typeof check = kind === 'SQLite' ? check : () => undefined;

    const runImport = async (runner: typeof runCommandProcess = runCommand) => {
      const { status, stdout, stderr } = await runner(['connections', 'import', file, '--json'], fleet.env);
      expect(stderr).toBe('');
      for (const token of tokens) expect(stdout).not.toContain(token);
      return { status, ...JSON.parse(stdout) };
    };
    const usesOf = (token: string) =>
      fleet.tokenEndpoint.uses.filter(({ refreshToken }) => refreshToken === token).length;
    const threadStatusOf = async (user: FleetUser) => (await fleet.thread(fleet.member(0), user)).status;
    /** Starts an import, and kills it when `untilReached` resolves. */
    const startAndKill = async (untilReached: () => Promise<unknown>) => {
      const program = startProgram(['node', 'src/cli.ts', 'connections', 'import', file], fleet.env);
      await untilReached();
      program.signal('SIGKILL');
      await program.ended;
    };

    check(
      'R111: two imports of one file at once use each refresh token once, and every user is connected',
      async () => {
        const reports = await Promise.all([runImport(runCommandProcess), runImport(runCommandProcess)]);
        for (const report of reports) {
          expect(report).toMatchObject({ status: 0, failures: [] });
          expect(report.imported + report.alreadyConnected).toBe(users.length);
        }
        expect(tokens.map(usesOf)).toEqual([1, 1, 1]);
        for (const user of users) expect(await threadStatusOf(user)).toBe(200);
      },
    );

    check(
      'R111: after kill -9, the next start refreshes the stored grants, and the import can be run again',
      async () => {
        const callsBefore = fleet.tokenEndpoint.callCount();
        const release = fleet.sandbox.faults.set({
          ...{ listener: 'identity-provider', path: '/token', kind: 'hold' },
          until: new Promise(() => undefined),
        });
        await startAndKill(() => until(() => fleet.tokenEndpoint.callCount() === callsBefore + users.length));
        release();
        const member = fleet.member(0);
        await member.kill();
        await member.start();
        const isConnected = async ({ userId }: FleetUser) => (await fleet.storage.readGrant(userId)).accessToken !== '';
        for (const user of users) await until(() => isConnected(user));
        expect(await runImport()).toMatchObject({ status: 0, imported: 0, alreadyConnected: users.length });
        for (const user of users) expect(await threadStatusOf(user)).toBe(200);
      },
    );

    checkOnce('R111: the admin API and the command at once use each refresh token once', async () => {
      const admin = await createAdministrator(fleet, fleet.storage);
      const entries = users.map(({ userId: id }, at) => ({ user: { id }, app: 'platform', refreshToken: tokens[at] }));
      const [{ status, json }, report] = await Promise.all([
        admin.call('POST', '/connections/import', { entries }),
        // A process starts a little later, so the API imports some. This is checked below.
        runImport(runCommandProcess),
      ]);
      expect([status, json.failures, report.failures]).toEqual([200, [], []]);
      expect(tokens.map(usesOf)).toEqual([1, 1, 1]);
      expect((await admin.call('POST', '/connections/import', { entries })).json).toMatchObject({
        alreadyConnected: users.length,
      });
      expect((await admin.call('GET', '/audit?event=connection.imported&limit=10')).json.items).toContainEqual(
        expect.objectContaining({ actor: expect.objectContaining({ kind: 'admin_token' }) }),
      );
      for (const user of users) expect(await threadStatusOf(user)).toBe(200);
    });

    // This test waits half a minute, and does not depend on the storage.
    checkOnce('R111: an import waits for a provider that limits its calls (429), and reports no failure', async () => {
      fleet.sandbox.faults.set({
        ...{ listener: 'identity-provider', path: '/token', kind: 'response', status: 429, times: 1 },
        ...{ headers: { 'retry-after': '1' }, body: { error: 'slow_down' } },
      });
      expect(await runImport()).toMatchObject({
        status: 0,
        imported: users.length,
        unchecked: 0,
        refused: 0,
        failures: [],
      });
      // The token of the refused call was sent twice. The provider had not spent it.
      expect(tokens.map(usesOf).toSorted()).toEqual([1, 1, 2]);
      for (const user of users) expect(await threadStatusOf(user)).toBe(200);
    });

    checkOnce(
      'R111: if kill -9 lost a response that the provider sends only once, the report names only that user',
      async () => {
        const heldResponse = fleet.tokenEndpoint.holdNext();
        await startAndKill(async () => {
          await heldResponse.prepared;
          // Waits until the other responses are stored.
          await until(async () => {
            const grants = await Promise.all(users.map(({ userId }) => fleet.storage.readGrant(userId)));
            return grants.filter(({ accessToken }) => accessToken !== '').length === users.length - 1;
          });
        });
        heldResponse.release();
        const report = await runImport();
        expect(report).toMatchObject({ status: 1, imported: 0, alreadyConnected: users.length - 1, refused: 1 });
        expect(report.failures).toMatchObject([{ result: 'refused', cause: 'response_lost', app: 'platform' }]);
        const usesBefore = fleet.tokenEndpoint.uses.length;
        expect((await runImport()).failures).toEqual(report.failures);
        expect(fleet.tokenEndpoint.uses.length).toBe(usesBefore);
      },
    );
  });
}
