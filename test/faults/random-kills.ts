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
  people: Losses[];
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
const threadOf = (fleet: Fleet, member: Member, person: FleetUser) =>
  fleet.thread(member, person).catch(() => undefined);

export async function killAtRandom(fleet: Fleet, logins: readonly string[], rounds: number): Promise<KillTally> {
  const { tokenEndpoint, members } = fleet;
  const before = {
    issued: tokenEndpoint.issued.length,
    refusals: tokenEndpoint.refusalCount(),
    uses: tokenEndpoint.uses.length,
  };
  const losses = logins.map((login): Losses => ({ login, lost: 0, furtherTries: [] }));
  const tally: KillTally = { kills: 0, refreshes: 0, misled: [], refusals: 0, people: losses };
  let isRunning = true;
  tokenEndpoint.lifetimeSeconds = 1;
  tokenEndpoint.delayMilliseconds = () => Math.random() * 300;

  const signInAgain = async (login: string): Promise<FleetUser> => {
    // The browser uses only one address, whose process may have been killed.
    for (;;) {
      const person = await fleet.signIn(login).catch(() => undefined);
      if (person) return person;
      await sleep(100);
    }
  };

  const useThreads = async (first: FleetUser) => {
    let person = first;
    while (isRunning) {
      const running = members.filter((member) => member.isRunning());
      const member = running[Math.floor(Math.random() * running.length)];
      const response = member && (await threadOf(fleet, member, person));
      if (response?.status === 200 || !response) {
        // A refresh is due once a second. More requests would only slow down starting processes.
        await sleep(60);
      } else if (codeOf(response.body) === 'reconnect_needed') {
        await recordLoss(fleet, person, tally);
        person = await signInAgain(person.login);
      } else {
        await sleep(50);
      }
    }
    return person;
  };

  const people = await Promise.all(logins.map((login) => fleet.signIn(login)));
  const loops = people.map(useThreads);
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
  tally.refreshes = tokenEndpoint.issued.length - before.issued;
  tally.refusals = tokenEndpoint.refusalCount() - before.refusals;
  for (const { login, userId } of signedIn)
    lossesOf(tally, login).furtherTries = furtherTriesOf(userId, tokenEndpoint.uses.slice(before.uses));
  tokenEndpoint.delayMilliseconds = () => 0;
  tokenEndpoint.lifetimeSeconds = 3_600;
  return tally;
}

/** Retries while a process has just started, or the store is too slow on a busy machine. */
async function threadWithRetries(fleet: Fleet, member: Member, person: FleetUser) {
  let response = await fleet.thread(member, person);
  for (let tries = 0; response.status === 503 && tries < 20; tries += 1) {
    await sleep(250);
    response = await fleet.thread(member, person);
  }
  return response;
}

/** Expects that each process serves every user after their tokens have expired once more. */
async function expectAllServed(fleet: Fleet, people: readonly FleetUser[], tally: KillTally): Promise<void> {
  await sleep(1_100);
  fleet.tokenEndpoint.lifetimeSeconds = 3_600;
  for (const person of people) {
    for (const member of fleet.members) {
      const response = await threadWithRetries(fleet, member, person);
      if (codeOf(response.body) === 'reconnect_needed') {
        await recordLoss(fleet, person, tally);
        break;
      }
      expect([person.login, response.status]).toEqual([person.login, 200]);
      expect((await fleet.storage.readGrant(person.userId)).refreshToken).toBe(
        fleet.tokenEndpoint.latestOf(person.userId)?.refreshToken,
      );
    }
  }
}

/** Records that a user had to reconnect, which is right only if the provider's newest token is not stored. */
async function recordLoss(fleet: Fleet, person: FleetUser, tally: KillTally): Promise<void> {
  const { refreshToken, failure } = await fleet.storage.readGrant(person.userId);
  if (
    refreshToken !== fleet.tokenEndpoint.latestOf(person.userId)?.refreshToken &&
    failure?.cause === 'response_lost'
  ) {
    lossesOf(tally, person.login).lost += 1;
  } else {
    tally.misled.push(`${person.login}: ${failure?.cause}`);
  }
}

function lossesOf({ people }: KillTally, login: string): Losses {
  const losses = people.find((candidate) => candidate.login === login);
  if (!losses) throw new Error(`${login} is not among these users.`);
  return losses;
}

function furtherTriesOf(userId: string, uses: readonly Use[]): number[] {
  const byToken = Map.groupBy(
    uses.filter((use) => use.userId === userId),
    ({ refreshToken }) => refreshToken,
  );
  return [...byToken.values()]
    .filter(({ length }) => length > 1)
    .map(([, , ...others]) => 1 + others.filter(({ afterDisconnect: afterCut }) => !afterCut).length);
}

function codeOf(body: string): unknown {
  try {
    return (JSON.parse(body) as { code?: unknown }).code;
  } catch {
    return undefined;
  }
}
