/** Kills processes at random moments while people make them refresh without pause, and keeps count of what was lost. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Fleet, Member, Person } from '../support/fleet.ts';
import type { Use } from '../support/token-desk.ts';

export interface KillTally {
  kills: number;
  /** Refreshes that brought new tokens. */
  refreshes: number;
  /** People who were told to reconnect although the vault holds the newest token: there must be none. */
  misled: string[];
  refusals: number;
  people: Losses[];
}

export interface Losses {
  login: string;
  /** How often they were told to reconnect because an answer was lost. */
  lost: number;
  /** For each of their refresh tokens that was used again: how often, beside what a kill amid such a further try allows. */
  furtherTries: number[];
}

/**
 * Between two kills. Whoever waits for a refresh that a killed process was at waits for its lease: with less time between, a quick
 * machine, whose processes are back at once, would kill more than it refreshes.
 */
const LEAST_PAUSE_MILLISECONDS = 200;
const PAUSE_MILLISECONDS = 1_200;

/** Answers, of which only those that came are judged: a killed process gives none. */
const threadOf = (fleet: Fleet, member: Member, person: Person) => fleet.thread(member, person).catch(() => undefined);

export async function killAtRandom(fleet: Fleet, logins: readonly string[], rounds: number): Promise<KillTally> {
  const { tokens, members } = fleet;
  const before = { issued: tokens.issued.length, refusals: tokens.refusals(), uses: tokens.uses.length };
  const losses = logins.map((login): Losses => ({ login, lost: 0, furtherTries: [] }));
  const tally: KillTally = { kills: 0, refreshes: 0, misled: [], refusals: 0, people: losses };
  let working = true;
  tokens.lifetimeSeconds = 1;
  tokens.delayMilliseconds = () => Math.random() * 300;

  const signInAgain = async (login: string): Promise<Person> => {
    // The browser knows but one address, and who listens there may be dead just now.
    for (;;) {
      const person = await fleet.signIn(login).catch(() => undefined);
      if (person) return person;
      await sleep(100);
    }
  };

  const live = async (first: Person) => {
    let person = first;
    while (working) {
      const running = members.filter((member) => member.isRunning());
      const member = running[Math.floor(Math.random() * running.length)];
      const answer = member && (await threadOf(fleet, member, person));
      if (answer?.status === 200 || !answer) {
        // A refresh is due once a second: asking more often would only starve the processes that start.
        await sleep(60);
      } else if (codeOf(answer.body) === 'reconnect_needed') {
        await judgeLoss(fleet, person, tally);
        person = await signInAgain(person.login);
      } else {
        await sleep(50);
      }
    }
    return person;
  };

  const people = await Promise.all(logins.map((login) => fleet.signIn(login)));
  const lives = people.map(live);
  const starts = new Map<Member, Promise<void>>();
  for (let round = 0; round < rounds; round += 1) {
    await sleep(LEAST_PAUSE_MILLISECONDS + Math.random() * PAUSE_MILLISECONDS);
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
  working = false;
  const survivors = await Promise.all(lives);
  await tokens.quiet();
  await judgeSurvivors(fleet, survivors, tally);
  tally.refreshes = tokens.issued.length - before.issued;
  tally.refusals = tokens.refusals() - before.refusals;
  for (const { login, userId } of survivors)
    lossesOf(tally, login).furtherTries = furtherTriesOf(userId, tokens.uses.slice(before.uses));
  tokens.delayMilliseconds = () => 0;
  tokens.lifetimeSeconds = 3_600;
  return tally;
}

/** A process that has just started, or a store that a busy machine keeps from answering, is asked again. */
async function settledThread(fleet: Fleet, member: Member, person: Person) {
  let answer = await fleet.thread(member, person);
  for (let tries = 0; answer.status === 503 && tries < 20; tries += 1) {
    await sleep(250);
    answer = await fleet.thread(member, person);
  }
  return answer;
}

/** Everybody's token ends once more, and each process has to serve everybody. */
async function judgeSurvivors(fleet: Fleet, people: readonly Person[], tally: KillTally): Promise<void> {
  await sleep(1_100);
  fleet.tokens.lifetimeSeconds = 3_600;
  for (const person of people) {
    for (const member of fleet.members) {
      const answer = await settledThread(fleet, member, person);
      if (codeOf(answer.body) === 'reconnect_needed') {
        await judgeLoss(fleet, person, tally);
        break;
      }
      expect([person.login, answer.status]).toEqual([person.login, 200]);
      expect((await fleet.vault.read(person.userId)).refreshToken).toBe(
        fleet.tokens.latestOf(person.userId)?.refreshToken,
      );
    }
  }
}

/** Told to reconnect: rightly so only where the newest token that the provider gave is not in the vault. */
async function judgeLoss(fleet: Fleet, person: Person, tally: KillTally): Promise<void> {
  const { refreshToken, failure } = await fleet.vault.read(person.userId);
  if (refreshToken !== fleet.tokens.latestOf(person.userId)?.refreshToken && failure?.cause === 'response_lost') {
    lossesOf(tally, person.login).lost += 1;
  } else {
    tally.misled.push(`${person.login}: ${failure?.cause}`);
  }
}

function lossesOf({ people }: KillTally, login: string): Losses {
  const losses = people.find((one) => one.login === login);
  if (!losses) throw new Error(`${login} is none of these people.`);
  return losses;
}

function furtherTriesOf(userId: string, uses: readonly Use[]): number[] {
  const byToken = Map.groupBy(
    uses.filter((use) => use.userId === userId),
    ({ refreshToken }) => refreshToken,
  );
  return [...byToken.values()]
    .filter(({ length }) => length > 1)
    .map(([, , ...others]) => 1 + others.filter(({ afterCut }) => !afterCut).length);
}

function codeOf(body: string): unknown {
  try {
    return (JSON.parse(body) as { code?: unknown }).code;
  } catch {
    return undefined;
  }
}
