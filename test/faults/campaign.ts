/** Runs a campaign: users at work while faults are drawn at random, and then a check of every promise. */
import { setTimeout as sleep } from 'node:timers/promises';
import { relayThread } from '../gatehouse/relay/service.ts';
import type { StoreKind } from '../support/fleet.ts';
import { until } from '../support/until.ts';
import { alarmsIn } from './alarms.ts';
import { type CampaignFault, machineFaults, outsideFaults } from './campaign-faults.ts';
import { createJournal, type Journal } from './campaign-journal.ts';
import { type Measures, measure, type Stored, storedSoFar } from './campaign-measures.ts';
import { type CampaignSite, startCampaignSite } from './campaign-site.ts';
import { type CampaignUsers, createCampaignUsers } from './campaign-users.ts';
import type { Chance } from './chance.ts';

export interface CampaignPlan {
  kind: StoreKind;
  chance: Chance;
  processes: number;
  users: number;
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
  const names = Array.from({ length: plan.users }, (_, n) => (n === 0 ? 'administrator' : `user-${n}`));
  const users = createCampaignUsers({ site, chance: chance.branch('users'), journal, names });
  try {
    const measureWithoutFaults = async () => {
      await sleep(plan.calmSeconds * 1_000);
      await users.stop();
      const user = users.all.find(({ connection }) => connection === 'active')?.userId ?? '';
      await endPause(site, user);
      return measure({ site, journal, user });
    };
    users.start();
    const before = await measureWithoutFaults();
    users.start();
    const strikes = new Map<string, number>();
    const machineChance = chance.branch('machine');
    const outsideChance = chance.branch('outside');
    const causeHalfOfTheFaults = async () => {
      const parts = { plan, journal, strikes, endsAt: performance.now() + plan.seconds * 500 };
      await Promise.all([
        strikeAtRandom({ ...parts, chance: machineChance, faults: machineFaults(site, machineChance) }),
        strikeAtRandom({ ...parts, chance: outsideChance, faults: outsideFaults(site, outsideChance) }),
      ]);
    };
    await causeHalfOfTheFaults();
    const halfway = storedSoFar(site, journal);
    await causeHalfOfTheFaults();
    const after = await measureWithoutFaults();
    await recover(site, users, journal);
    return {
      violations: [...journal.violations, ...site.unexpectedEnds, ...alarmsIn(site.output())],
      journal,
      strikes,
      refreshes: site.provider.refreshes(),
      losses: users.all.map(({ losses }) => losses).reduce((sum, losses) => sum + losses, 0),
      before,
      halfway,
      after,
    };
  } finally {
    users.close();
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
  const remaining: CampaignFault[] = [];
  while (performance.now() < endsAt) {
    if (remaining.length === 0) remaining.push(...faults);
    const [fault] = remaining.splice(chance.below(remaining.length), 1);
    if (!fault) throw new Error('There is no fault to draw.');
    const endFault = journal.beginFault(fault.name, fault.cuts);
    await fault.strike(chance.between(...faultMilliseconds));
    endFault();
    strikes.set(fault.name, (strikes.get(fault.name) ?? 0) + 1);
    await sleep(chance.between(...faultMilliseconds));
  }
}

/** After all faults, checks that every user is served again and has lost nothing. */
async function recover(site: CampaignSite, users: CampaignUsers, journal: Journal): Promise<void> {
  const { provider, members, storage } = site;
  const host = new URL(site.url).host;
  for (const user of users.all) {
    let missing = 'sign-in';
    const hasRecovered = async () => {
      // Gatehouse pauses for up to half a minute after a failure, even if the cause is gone. End the pause here.
      await endPause(site, user.userId);
      if (!(await users.settle(user))) return false;
      const headers = { 'gatehouse-user': user.userId, host };
      const responses = await Promise.all(members.map((member) => relayThread(member, site.relayToken, headers)));
      missing = `responses of all processes: ${responses.map(({ status, body }) => `${status} ${body}`).join(', ')}`;
      if (!responses.every(({ status, body }) => status === 200 && JSON.parse(body).owner === user.userId))
        return false;
      const grant = await storage.readGrant(user.userId);
      missing = `valid token (${grant.failure?.cause})`;
      return !grant.failure && provider.accepts(grant.refreshToken);
    };
    await until(hasRecovered, RECOVERY_MILLISECONDS).catch(() =>
      journal.addViolation(`at the end ${user.name} has no ${missing}`),
    );
  }
  for (const member of members) {
    const { status } = await relayThread(member, site.revokedToken, { host: new URL(site.url).host });
    if (status !== 401) journal.addViolation(`a revoked relay token got ${status}`);
  }
  for (const path of new Set(provider.trapped()))
    journal.addViolation(`a redirect was followed, or ${path} was requested`);
}

async function endPause({ storage }: CampaignSite, userId: string): Promise<void> {
  const stored = await storage.grants.loadStored(userId, 'platform');
  if (!stored || 'unreadable' in stored || !stored.grant.failure) return;
  // If another process writes it meanwhile, it has already refreshed.
  await storage.grants.save(
    { ...stored.grant, failure: { ...stored.grant.failure, retryAt: Date.now() } },
    stored.version,
  );
}
