/** Stores the connections of the demo's history, and what the apps' token responses showed. */
import { registrationOf } from '../gatehouse/connected-apps/registration.ts';
import { type Grant, withFailure } from '../gatehouse/grants/grant.ts';
import { HOUR_MS } from '../shared/time.ts';
import { demoRegistration } from './apps.ts';
import type { Scene } from './scene.ts';
import { BROKEN, type PlannedVisits, userOf } from './visits.ts';

/** The access tokens have expired, so that Gatehouse refreshes each in turn. */
export async function storeConnections(scene: Scene, { connected, idOf }: PlannedVisits): Promise<void> {
  const { modules, timeline, random, apps, now } = scene;
  const { switches, platformUrl } = scene.sandbox;
  for (const { person, app, first, last } of connected.values()) {
    const user = userOf(scene, person);
    const access = { login: person.login, clientId: app.clientId };
    const broken = app === apps.platform ? BROKEN.find(({ login }) => login === person.login) : undefined;
    const obtainedAt = Math.round(now - (broken?.hoursAgo ?? random.between(0.001, 0.012)) * HOUR_MS);
    timeline.moveTo(now);
    const grant: Grant = {
      id: idOf(person.login, app),
      userId: user.id,
      appId: app.id,
      registration: registrationOf(demoRegistration(app, scene.sandbox)),
      accessToken: random.hex(43),
      refreshToken: broken
        ? random.hex(43)
        : await switches.allow(access, app.scopes, app.hasPlatform ? platformUrl : undefined),
      scopes: [...app.scopes],
      requestedScopes: [...app.scopes],
      account: { issuer: user.issuer, subject: user.subject, name: user.name, email: user.email },
      obtainedAt,
      expiresAt: Math.min(obtainedAt + 60_000, now),
      connectedAt: first,
      consentedAt: Math.min(last, obtainedAt),
      failure: undefined,
      refresh: undefined,
      rotates: true,
    };
    const refusal = { now: obtainedAt, random: random.next(), reason: 'invalid_grant' };
    await modules.grants.save(broken ? withFailure(grant, 'reconnect_needed', 'grant_refused', refusal) : grant, 0);
    timeline.moveTo(obtainedAt);
    await modules.grants.noteUse(user.id, app.id);
  }
  timeline.moveTo(now);
  for (const { id } of Object.values(apps))
    await modules.observations.save(id, { refreshToken: true, expiresIn: true, rotates: true });
}
