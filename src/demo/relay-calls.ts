/** The relay tokens of the demo's history, the calls that services made with them, and a connect link. */
import type { UseResult } from '../gatehouse/relay/stored-uses.ts';
import { newOpaqueTokenId } from '../shared/storage/opaque-token.ts';
import { DAY_MS, HOUR_MS, isoTime } from '../shared/time.ts';
import { changesOf } from './administration.ts';
import { DEFAULT_POLICY } from './demo-token.ts';
import { PEOPLE, QUENTIN } from './people.ts';
import type { Scene } from './scene.ts';
import { hourOf, isWeekend, startOfHour } from './timeline.ts';
import { userOf } from './visits.ts';

type NewRelayToken = Parameters<Scene['modules']['relayTokens']['create']>[1];

interface Service
  extends Pick<NewRelayToken, 'scopes' | 'apps' | 'users'>,
    Partial<Pick<NewRelayToken, 'assertUser' | 'networks'>> {
  name: string;
  address: string;
  /** `days`: the age of the token of the service. `validDays`: the lifetime of the token. */
  days: number;
  validDays: number;
  /** The hour at which the calls of a day begin, and the hour before which they end (UTC). */
  hours: readonly [number, number];
  weekend: boolean;
  /** Average number of calls in an hour. */
  calls: number;
  /** The range of `PEOPLE` whose threads the service reads. If it is empty, it reads those of the service account. */
  people: readonly [number, number];
}

const SERVICES: readonly Service[] = [
  {
    name: 'report-builder',
    address: '10.0.4.7',
    days: 28,
    validDays: 90,
    scopes: ['threads:read', 'connections:read'],
    apps: ['platform'],
    users: 'all',
    assertUser: true,
    hours: [7, 18],
    weekend: false,
    calls: 46,
    people: [0, 9],
  },
  {
    name: 'nightly-sync',
    address: '10.0.4.12',
    days: 27,
    validDays: 39,
    scopes: ['threads:read', 'bin:read'],
    apps: ['platform'],
    users: 'none',
    hours: [2, 3],
    weekend: true,
    calls: 310,
    people: [0, 0],
  },
  {
    name: 'chat-assistant',
    address: '10.0.4.31',
    days: 16,
    validDays: 60,
    networks: ['10.0.4.0/24'],
    scopes: ['threads:read', 'token:exchange', 'connect_links:create'],
    apps: ['platform', 'team'],
    users: 'all',
    assertUser: true,
    hours: [8, 17],
    weekend: false,
    calls: 88,
    people: [4, 14],
  },
];
const LINK_AGE_MS = 360_000;

export function planServices(scene: Scene, serviceAccount: string): void {
  const change = changesOf(scene);
  for (const service of SERVICES) {
    const { name, address, days, validDays, hours: _h, weekend: _w, calls: _c, people, ...policy } = service;
    const id = newOpaqueTokenId();
    const expiresAt = scene.now + (validDays - days) * DAY_MS;
    change(days, 'relay_token.created', async () => {
      await scene.modules.relayTokens.create(id, { ...DEFAULT_POLICY, ...policy, name, expiresAt });
      const facts = { scopes: policy.scopes, expiresAt: isoTime(expiresAt) };
      return { target: { kind: 'relay_token', id, name }, facts };
    });
    const users = PEOPLE.slice(...people).map((person) => userOf(scene, person).id);
    planCalls(scene, service, { token: { id, name }, users, serviceAccount });
    if (policy.scopes.includes('connect_links:create')) planLink(scene, { id, name, address });
  }
}

function planCalls(
  { modules, timeline, random, now, apps, outage }: Scene,
  { days, hours, weekend, calls, address }: Service,
  {
    token,
    users,
    serviceAccount,
  }: { token: { id: string; name: string }; users: readonly string[]; serviceAccount: string },
): void {
  for (let hour = startOfHour(now - days * DAY_MS) + HOUR_MS; hour < now; hour += HOUR_MS) {
    if (hourOf(hour) < hours[0] || hourOf(hour) >= hours[1] || (isWeekend(hour) && !weekend)) continue;
    const userId = users[random.whole(0, users.length - 1)];
    const subject = userId === undefined ? { serviceAccount } : { userId };
    const isDown = hour + HOUR_MS > outage.from && hour < outage.to;
    const note = (result: UseResult, count: number) => {
      const use = { token, scope: 'threads:read', app: apps.platform.id, address, ...subject } as const;
      for (let call = 0; call < count; call += 1) modules.relayUses.note({ ...use, result, requestId: random.hex(32) });
    };
    timeline.at(hour + random.whole(60_000, 3_000_000), () => {
      note('succeeded', Math.round(calls * random.between(0.6, 1.4)));
      note('failed', isDown ? random.whole(8, 30) : random.chance(0.12) ? random.whole(1, 3) : 0);
      if (random.chance(0.04)) note('users', random.whole(1, 4));
      // Only the latest uses are noted, because they overwrite earlier ones.
      return now - hour < 4 * DAY_MS ? modules.relayTokens.noteUse(token.id, address) : undefined;
    });
  }
}

function planLink(scene: Scene, { address, ...relayToken }: { id: string; name: string; address: string }): void {
  const { modules, timeline, now, apps } = scene;
  const userId = userOf(scene, QUENTIN).id;
  const { id: app, scopes } = apps.team;
  timeline.at(now - LINK_AGE_MS, async () => {
    const request = { userId, app, scopes, returnUrl: undefined, relayToken };
    const created = await modules.connectLinks.create(request, async () => []);
    if (!created) return;
    const { link } = created;
    const target = { kind: 'connect_link', id: link.id };
    const actor = { kind: 'relay_token', ...relayToken } as const;
    modules.audit.note({ event: 'connect_link.created', actor, target, userId, address, facts: { app, scopes } });
  });
}
