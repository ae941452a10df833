/** Runs a campaign: users at work while faults are drawn at random, and then a check of every promise. */
import { setTimeout as sleep } from 'node:timers/promises';
import { relayThread } from '../gatehouse/relay/service.ts';
import type { StoreKind } from '../support/fleet.ts';
import { until } from '../support/until.ts';
import { alarmsIn } from './alarms.ts';
import { type CampaignFault, machineFaults, outsideFaults } from './campaign-faults.ts';
import { createJournal, type Journal } from './campaign-journal.ts';
import { type Measures, measure, type Stored, storedSoFar } from './campaign-measures.ts';
import { createPeople, type People } from './campaign-people.ts';
import { type CampaignSite, startCampaignSite } from './campaign-site.ts';
import type { Chance } from './chance.ts';

export interface CampaignPlan {
  kind: StoreKind;
  chance: Chance;
  processes: number;
  people: number;
  /** Without faults, before the first measures and again before the last ones. */
  calmSeconds: number;
  /** With faults. */
  seconds: number;
  /** How long one fault lasts, and how long it is quiet until the next. */
  faultMilliseconds: readonly [least: number, most: number];
}

export interface CampaignAccount {
  wrongs: readonly string[];
  journal: Journal;
  /** How often each fault struck. */
  strikes: ReadonlyMap<string, number>;
  refreshes: number;
  /** How often somebody was rightly told that an answer was lost. */
  losses: number;
  before: Measures;
  /** At half of the time. */
  halfway: Stored;
  after: Measures;
}

/** Until everything has to be well again after the last fault. */
const RECOVERY_MILLISECONDS = 45_000;

export async function runCampaign(plan: CampaignPlan): Promise<CampaignAccount> {
  const { kind, chance, processes } = plan;
  const journal = createJournal();
  const site = await startCampaignSite({ kind, processes, chance: chance.branch('balancer') });
  const names = Array.from({ length: plan.people }, (_, n) => (n === 0 ? 'administrator' : `person-${n}`));
  const people = createPeople({ site, chance: chance.branch('people'), journal, names });
  try {
    const calm = async () => {
      await sleep(plan.calmSeconds * 1_000);
      await people.stop();
      const user = people.all.find(({ connection }) => connection === 'made')?.userId ?? '';
      await endPause(site, user);
      return measure({ site, journal, user });
    };
    people.start();
    const before = await calm();
    people.start();
    const strikes = new Map<string, number>();
    const [machine, outside] = [chance.branch('machine'), chance.branch('outside')];
    const halfOfTheFaults = async () => {
      const during = { plan, journal, strikes, endsAt: performance.now() + plan.seconds * 500 };
      await Promise.all([
        strikeAtRandom({ ...during, chance: machine, faults: machineFaults(site, machine) }),
        strikeAtRandom({ ...during, chance: outside, faults: outsideFaults(site, outside) }),
      ]);
    };
    await halfOfTheFaults();
    const halfway = storedSoFar(site, journal);
    await halfOfTheFaults();
    const after = await calm();
    await recover(site, people, journal);
    return {
      wrongs: [...journal.wrongs, ...site.ownEnds, ...alarmsIn(site.output())],
      ...{ journal, strikes, refreshes: site.provider.refreshes() },
      losses: people.all.reduce((sum, { losses }) => sum + losses, 0),
      ...{ before, halfway, after },
    };
  } finally {
    people.close();
    await site.close();
  }
}

async function strikeAtRandom(parts: {
  faults: readonly CampaignFault[];
  chance: Chance;
  plan: CampaignPlan;
  journal: Journal;
  strikes: Map<string, number>;
  endsAt: number;
}): Promise<void> {
  const { faults, chance, plan, journal, strikes, endsAt } = parts;
  const { faultMilliseconds } = plan;
  // Each once in a random order, and again: even a short run meets nearly all of them.
  const due: CampaignFault[] = [];
  while (performance.now() < endsAt) {
    if (due.length === 0) due.push(...faults);
    const [fault] = due.splice(chance.below(due.length), 1);
    if (!fault) throw new Error('There is no fault to draw.');
    const mended = journal.breaks(fault.name, fault.cuts);
    await fault.strike(chance.between(...faultMilliseconds));
    mended();
    strikes.set(fault.name, (strikes.get(fault.name) ?? 0) + 1);
    await sleep(chance.between(...faultMilliseconds));
  }
}

/** All is mended: everybody is served again, and nobody has lost what they were promised. */
async function recover(site: CampaignSite, people: People, journal: Journal): Promise<void> {
  const { provider, members, vault } = site;
  const host = new URL(site.url).host;
  for (const person of people.all) {
    let missing = 'sign-in';
    const isWell = async () => {
      // Pauses of half a minute are kept to after a failure, also after one whose cause was only just mended: time passes here.
      await endPause(site, person.userId);
      if (!(await people.settle(person))) return false;
      const headers = { 'gatehouse-user': person.userId, host };
      const answers = await Promise.all(members.map((member) => relayThread(member, site.relayToken, headers)));
      missing = `answers of all processes: ${answers.map(({ status, body }) => `${status} ${body}`).join(', ')}`;
      if (!answers.every(({ status, body }) => status === 200 && JSON.parse(body).owner === person.userId))
        return false;
      const grant = await vault.read(person.userId);
      missing = `token that is taken (${grant.failure?.cause})`;
      return !grant.failure && provider.takes(grant.refreshToken);
    };
    await until(isWell, RECOVERY_MILLISECONDS).catch(() =>
      journal.wrong(`at the end ${person.name} has no ${missing}`),
    );
  }
  for (const member of members) {
    const { status } = await relayThread(member, site.revokedToken, { host: new URL(site.url).host });
    if (status !== 401) journal.wrong(`a relay token that was revoked is answered with ${status}`);
  }
  for (const path of new Set(provider.trapped())) journal.wrong(`a redirect was followed, or ${path} asked for`);
}

async function endPause({ vault }: CampaignSite, userId: string): Promise<void> {
  const stored = await vault.grants.loadStored(userId, 'platform');
  if (!stored || 'unreadable' in stored || !stored.grant.failure) return;
  // Whoever wrote it meanwhile has asked already.
  await vault.grants.save(
    { ...stored.grant, failure: { ...stored.grant.failure, retryAt: Date.now() } },
    stored.version,
  );
}
