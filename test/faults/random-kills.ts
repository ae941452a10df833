/** Kills processes at random times during constant refreshes, and counts lost responses. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Fleet, FleetUser, Member } from '../support/fleet.ts';
import type { Use } from '../support/token-endpoint.ts';

export interface KillTally {
  kills: number;
  /** Successful refreshes. */
  refreshes: number;
  /** Users who had to reconnect although the newest token is stored. Must be empty. */
  misled: string[];
  refusals: number;
  users: Losses[];
}

export interface Losses {
  login: string;
  /** How often the user had to reconnect because a response was lost. */
  lost: number;
  /** For each reused refresh token: the number of further uses, without one that a kill during such a use explains. */
  furtherTries: number[];
}

/**
 * Minimum time between two kills. After a kill during a refresh, other processes wait for its lease. With shorter
 * pauses, a fast machine would have more kills than refreshes.
 */
const MIN_PAUSE_MILLISECONDS = 200;
const PAUSE_MILLISECONDS = 1_200;

/** Returns undefined if a killed process sent no response. */
const threadOf = (fleet: Fleet, member: Member, user: FleetUser) => fleet.thread(member, user).catch(() => undefined);

export async function killAtRandom(fleet: Fleet, logins: readonly string[], rounds: number): Promise<KillTally> {
  const { tokenEndpoint, members } = fleet;
  const refreshesBefore = tokenEndpoint.issued.length;
  const refusalsBefore = tokenEndpoint.refusalCount();
  const usesBefore = tokenEndpoint.uses.length;
  const losses = logins.map((login): Losses => ({ login, lost: 0, furtherTries: [] }));
  const tally: KillTally = { kills: 0, refreshes: 0, misled: [], refusals: 0, users: losses };
  let isRunning = true;
  tokenEndpoint.lifetimeSeconds = 1;
  tokenEndpoint.delayMilliseconds = () => Math.random() * 300;

  const signInAgain = async (login: string): Promise<FleetUser> => {
    // The browser uses only one address, whose process may have been killed.
    for (;;) {
      const user = await fleet.signIn(login).catch(() => undefined);
      if (user) return user;
      await sleep(100);
    }
  };

  const requestThreads = async (signedInUser: FleetUser) => {
    let user = signedInUser;
    while (isRunning) {
      const running = members.filter((member) => member.isRunning());
      const member = running[Math.floor(Math.random() * running.length)];
      const response = member && (await threadOf(fleet, member, user));
      if (response?.status === 200 || !response) {
        // A refresh is due once a second. More requests would only slow down starting processes.
        await sleep(60);
      } else if (codeOf(response.body) === 'reconnect_needed') {
        await recordLoss(fleet, user, tally);
        user = await signInAgain(user.login);
      } else {
        await sleep(50);
      }
    }
    return user;
  };

  const users = await Promise.all(logins.map((login) => fleet.signIn(login)));
  const loops = users.map(requestThreads);
  const starts = new Map<Member, Promise<void>>();
  for (let round = 0; round < rounds; round += 1) {
    await sleep(MIN_PAUSE_MILLISECONDS + Math.random() * PAUSE_MILLISECONDS);
    const ready = members.filter((member) => !starts.has(member));
    const victim = ready[Math.floor(Math.random() * ready.length)];
    if (!victim) throw new Error('No process is left to be killed.');
    await victim.kill();
    tally.kills += 1;
    starts.set(
      victim,
      victim.start().then(() => void starts.delete(victim)),
    );
    if (starts.size > members.length - 2) await Promise.race(starts.values());
  }
  await Promise.all(starts.values());
  isRunning = false;
  const signedIn = await Promise.all(loops);
  await tokenEndpoint.untilIdle();
  await expectAllServed(fleet, signedIn, tally);
  tally.refreshes = tokenEndpoint.issued.length - refreshesBefore;
  tally.refusals = tokenEndpoint.refusalCount() - refusalsBefore;
  for (const { login, userId } of signedIn)
    lossesOf(tally, login).furtherTries = furtherTriesOf(userId, tokenEndpoint.uses.slice(usesBefore));
  tokenEndpoint.delayMilliseconds = () => 0;
  tokenEndpoint.lifetimeSeconds = 3_600;
  return tally;
}

/** Retries while a process has just started, or the store is too slow on a busy machine. */
async function threadWithRetries(fleet: Fleet, member: Member, user: FleetUser) {
  let response = await fleet.thread(member, user);
  for (let tries = 0; response.status === 503 && tries < 20; tries += 1) {
    await sleep(250);
    response = await fleet.thread(member, user);
  }
  return response;
}

/** Expects that each process serves every user after their tokens have expired once more. */
async function expectAllServed(fleet: Fleet, users: readonly FleetUser[], tally: KillTally): Promise<void> {
  await sleep(1_100);
  fleet.tokenEndpoint.lifetimeSeconds = 3_600;
  for (const user of users) {
    for (const member of fleet.members) {
      const response = await threadWithRetries(fleet, member, user);
      if (codeOf(response.body) === 'reconnect_needed') {
        await recordLoss(fleet, user, tally);
        break;
      }
      expect([user.login, response.status]).toEqual([user.login, 200]);
      expect((await fleet.storage.readGrant(user.userId)).refreshToken).toBe(
        fleet.tokenEndpoint.latestOf(user.userId)?.refreshToken,
      );
    }
  }
}

/** Records that a user had to reconnect, which is right only if the provider's newest token is not stored. */
async function recordLoss(fleet: Fleet, user: FleetUser, tally: KillTally): Promise<void> {
  const { refreshToken, failure } = await fleet.storage.readGrant(user.userId);
  if (refreshToken !== fleet.tokenEndpoint.latestOf(user.userId)?.refreshToken && failure?.cause === 'response_lost') {
    lossesOf(tally, user.login).lost += 1;
  } else {
    tally.misled.push(`${user.login}: ${failure?.cause}`);
  }
}

function lossesOf({ users }: KillTally, login: string): Losses {
  const losses = users.find((candidate) => candidate.login === login);
  if (!losses) throw new Error(`${login} is not among these users.`);
  return losses;
}

function furtherTriesOf(userId: string, uses: readonly Use[]): number[] {
  const usesOfUser = uses.filter((use) => use.userId === userId);
  const usesByToken = Map.groupBy(usesOfUser, ({ refreshToken }) => refreshToken);
  const tries: number[] = [];
  for (const usesOfToken of usesByToken.values()) {
    if (usesOfToken.length === 1) continue;
    // The second use is a further try in any case. A later one is explained if a kill cut the use before it.
    const unexplained = usesOfToken.slice(2).filter(({ afterDisconnect }) => !afterDisconnect);
    tries.push(1 + unexplained.length);
  }
  return tries;
}

function codeOf(body: string): unknown {
  try {
    return (JSON.parse(body) as { code?: unknown }).code;
  } catch {
    return undefined;
  }
}
