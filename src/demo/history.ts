/**
 * The demo's history: 30 days of users, services and administration, written by the modules of Gatehouse with a clock
 * that moves through these days. It is the same at every start, except for random keys and ids.
 */
import type { Config } from '../shared/config/config.ts';
import { createSqliteStore } from '../shared/storage/sqlite/store.ts';
import type { OpenedStorage } from '../shared/storage/storage.ts';
import { DAY_MS, HOUR_MS } from '../shared/time.ts';
import { planAdministration } from './administration.ts';
import { storeConnections } from './connections.ts';
import { openModules } from './modules.ts';
import { PEOPLE } from './people.ts';
import { createRandom } from './random.ts';
import { planServices } from './relay-calls.ts';
import type { Scene } from './scene.ts';
import { createTimeline, DAYS, isWeekend, isWorkingHour, startOfDay, startOfHour } from './timeline.ts';
import { type PlannedVisits, planVisits, userOf } from './visits.ts';

const SEED = 20_311;
const FAILING_SINCE_MS = 2.3 * DAY_MS;

export async function writeHistory(
  parts: Pick<Scene, 'sandbox' | 'apps' | 'receivers' | 'now'> & { storage: OpenedStorage; config: Config },
): Promise<void> {
  const { config, sandbox, apps, receivers, now } = parts;
  // Not durable, because otherwise each of several thousand writes would wait for the disk.
  const store = await createSqliteStore({ directory: config.dataDirectory, durable: false });
  const storage = { ...parts.storage, store };
  const random = createRandom(SEED);
  const timeline = createTimeline(now);
  const { clock } = timeline;
  const receive = (url: string) => (url === receivers.failing && now - clock() < FAILING_SINCE_MS ? 503 : 204);
  const modules = await openModules({ storage, config, clock, random: random.next, receive });
  const scene: Scene = { modules, timeline, random, now, sandbox, apps, receivers, outage: outageBefore(now) };
  const visits = planVisits(scene);
  const { serviceAccount } = planAdministration(scene);
  planServices(scene, serviceAccount);
  planRefreshes(scene, visits, HOUR_MS / 1_000 / config.connectionCheckSeconds);
  await timeline.play();
  await storeConnections(scene, visits);
  await writeLookUps(scene);
  await modules.close();
  await store.close();
}

/** Returns the times of an outage in the morning of a working day. */
function outageBefore(now: number): Scene['outage'] {
  let day = startOfDay(now) - 9 * DAY_MS;
  while (isWeekend(day)) day -= DAY_MS;
  const from = day + 9.2 * HOUR_MS;
  return { from, to: from + 0.7 * HOUR_MS };
}

/** Plans the refreshes. Each check of a connection is one, and services cause more in working hours. */
function planRefreshes(scene: Scene, { connected, idOf }: PlannedVisits, checksPerHour: number): void {
  const { modules, timeline, random, now, outage, apps } = scene;
  const app = apps.platform.id;
  for (let hour = startOfHour(now - DAYS * DAY_MS); hour < now; hour += HOUR_MS) {
    const share = (isWorkingHour(hour) ? 1.1 : 1) * Math.min(1, (now - hour) / HOUR_MS);
    timeline.at(hour, () => {
      const count = connected.size * checksPerHour * share * random.between(0.97, 1.03);
      // Thousands of events would take too long, so they are only counted.
      for (let refresh = 0; refresh < count; refresh += 1) modules.audit.tallies.count('refresh.succeeded');
    });
  }
  for (let at = outage.from; at < outage.to; at += random.whole(60_000, 180_000)) {
    const person = random.pick(PEOPLE.map((candidate) => [candidate, 1]));
    const connection = { userId: userOf(scene, person).id, app, connection: idOf(person.login, apps.platform) };
    timeline.at(at, () => modules.events.refreshEnded({ ...connection, outcome: 'unavailable', reason: 'status' }));
  }
}

/** Writes the lookups of this month. */
async function writeLookUps({ modules, random, now }: Scene): Promise<void> {
  const days = new Date(now).getUTCDate();
  const { lookedUp, cacheRead, serviceResponded } = modules.binTally;
  const counts = { dataset: 61, cache: 9, service: 3, rules: 2, bin_not_found: 1 } as const;
  for (const [outcome, perDay] of Object.entries(counts) as [keyof typeof counts, number][]) {
    const count = Math.round(perDay * days * random.between(0.9, 1.1));
    lookedUp(outcome, count);
    for (let lookUp = 0; lookUp < count; lookUp += 1) {
      if (outcome === 'cache' || outcome === 'service') cacheRead(outcome === 'cache');
      if (outcome === 'service') await modules.binQuota?.reserve({ kind: 'operator' });
    }
  }
  serviceResponded(undefined);
}
