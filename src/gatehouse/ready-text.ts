/** The text that `npm start` prints once Gatehouse is ready. */
import { domainToUnicode } from 'node:url';
import type { Config } from '../shared/config/config.ts';
import { hostAndPort } from '../shared/config/rules.ts';
import { type ConnectedApp, callbackAdvice, isUsable } from '../shared/provider/connected-app.ts';
import { storageName } from '../shared/storage/name.ts';
import { VERSION } from '../shared/version.ts';

type ReadyConfig = Pick<Config, 'publicUrl' | 'listen' | 'management' | 'redis' | 'dataDirectory'>;

/** `text` for a terminal; `msg` and `facts` for the log. */
export function readyText(config: ReadyConfig, apps: readonly ConnectedApp[]) {
  const { publicUrl } = config;
  const [listen, management] = [hostAndPort(config.listen), hostAndPort(config.management)];
  const storage = storageName(config);
  const count = apps.length === 1 ? '1 connected app' : `${apps.length} connected apps`;
  const { hostname } = new URL(publicUrl.href);
  const unicodeHost = domainToUnicode(hostname);
  const hostWords = unicodeHost === hostname ? '' : ` (${unicodeHost})`;
  const msg = `Gatehouse is ready at ${publicUrl.href}${hostWords}`;
  const advice = adviceOn(apps, publicUrl.href);
  const lines = [
    msg,
    `It listens on ${listen}, for health and metrics on ${management}. Version: ${VERSION}. Storage: ${storage}. ${count}.`,
    ...(advice === undefined ? [] : [advice]),
  ];
  const facts = { version: VERSION, listen, management, storage, apps: apps.length, advice };
  return { text: `${lines.join('\n')}\n`, msg, facts };
}

function adviceOn(apps: readonly ConnectedApp[], publicHref: string): string | undefined {
  const signInApps = apps.filter(({ signIn }) => signIn !== undefined);
  if (signInApps.some((app) => isUsable(app, publicHref))) return undefined;
  const enabled = signInApps.find(({ disabled }) => !disabled);
  if (enabled) {
    return `No user can sign in yet with the app "${enabled.id}": ${callbackAdvice(enabled, publicHref)}.`;
  }
  return signInApps.length > 0
    ? 'No user can sign in: every app that users sign in with is disabled.'
    : 'No user can sign in yet: add an app with signIn to CONNECTED_APPS_FILE (docs/connected-apps.md), and restart.';
}
