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
  /** Time without faults before the first and before the last measures. */
  calmSeconds: number;
  /** Time with faults. */
  seconds: number;
  /** The range of the duration of a fault, and of the pause after it. */
  faultMilliseconds: readonly [min: number, max: number];
}

export interface CampaignResult {
  violations: readonly string[];
  journal: Journal;
  /** How often each fault occurred. */
  strikes: ReadonlyMap<string, number>;
  refreshes: number;
  /** How often a user rightly had to reconnect because a response was lost. */
  losses: number;
  before: Measures;
  /** After half of the time. */
  halfway: Stored;
  after: Measures;
}

/** Maximum time to recover after the last fault. */
const RECOVERY_MILLISECONDS = 45_000;

export async function runCampaign(plan: CampaignPlan): Promise<CampaignResult> {
  const { kind, chance, processes } = plan;
  const journal = createJournal();
  const site = await startCampaignSite({ kind, processes, chance: chance.branch('balancer') });
  const names = Array.from({ length: plan.people }, (_, n) => (n === 0 ? 'administrator' : `person-${n}`));
  const people = createPeople({ site, chance: chance.branch('people'), journal, names });
  try {
    const calm = async () => {
      await sleep(plan.calmSeconds * 1_000);
      await people.stop();
      const user = people.all.find(({ connection }) => connection === 'active')?.userId ?? '';
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
      violations: [...journal.violations, ...site.unexpectedEnds, ...alarmsIn(site.output())],
      journal,
      strikes,
      refreshes: site.provider.refreshes(),
      losses: people.all.reduce((sum, { losses }) => sum + losses, 0),
      before,
      halfway,
      after,
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
  // Each fault occurs once in random order before any repeats, so even a short run has nearly all of them.
  const due: CampaignFault[] = [];
  while (performance.now() < endsAt) {
    if (due.length === 0) due.push(...faults);
    const [fault] = due.splice(chance.below(due.length), 1);
    if (!fault) throw new Error('There is no fault to draw.');
    const endFault = journal.beginFault(fault.name, fault.cuts);
    await fault.strike(chance.between(...faultMilliseconds));
    endFault();
    strikes.set(fault.name, (strikes.get(fault.name) ?? 0) + 1);
    await sleep(chance.between(...faultMilliseconds));
  }
}

/** After all faults, checks that every user is served again and has lost nothing. */
async function recover(site: CampaignSite, people: People, journal: Journal): Promise<void> {
  const { provider, members, vault } = site;
  const host = new URL(site.url).host;
  for (const person of people.all) {
    let missing = 'sign-in';
    const hasRecovered = async () => {
      // Gatehouse pauses for up to half a minute after a failure, even if the cause is gone. End the pause here.
      await endPause(site, person.userId);
      if (!(await people.settle(person))) return false;
      const headers = { 'gatehouse-user': person.userId, host };
      const responses = await Promise.all(members.map((member) => relayThread(member, site.relayToken, headers)));
      missing = `responses of all processes: ${responses.map(({ status, body }) => `${status} ${body}`).join(', ')}`;
      if (!responses.every(({ status, body }) => status === 200 && JSON.parse(body).owner === person.userId))
        return false;
      const grant = await vault.readGrant(person.userId);
      missing = `valid token (${grant.failure?.cause})`;
      return !grant.failure && provider.accepts(grant.refreshToken);
    };
    await until(hasRecovered, RECOVERY_MILLISECONDS).catch(() =>
      journal.addViolation(`at the end ${person.name} has no ${missing}`),
    );
  }
  for (const member of members) {
    const { status } = await relayThread(member, site.revokedToken, { host: new URL(site.url).host });
    if (status !== 401) journal.addViolation(`a revoked relay token got ${status}`);
  }
  for (const path of new Set(provider.trapped()))
    journal.addViolation(`a redirect was followed, or ${path} was requested`);
}

async function endPause({ vault }: CampaignSite, userId: string): Promise<void> {
  const stored = await vault.grants.loadStored(userId, 'platform');
  if (!stored || 'unreadable' in stored || !stored.grant.failure) return;
  // If another process writes it meanwhile, it has already refreshed.
  await vault.grants.save(
    { ...stored.grant, failure: { ...stored.grant.failure, retryAt: Date.now() } },
    stored.version,
  );
}
