/** Owns the work of the commands that try connected apps: loaded when one of them is called, since it takes a large part of the server. */
import { readFileSync } from 'node:fs';
import { type Config, loadConfig } from '../config.ts';
import { parseConnectedApps } from '../connected-apps/app-file.ts';
import { createAppRegistry } from '../connected-apps/app-registry.ts';
import { createAppStore } from '../connected-apps/app-store.ts';
import { type AppCheck, createAppCheck } from '../connected-apps/check.ts';
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import type { Finding } from '../connected-apps/finding.ts';
import { createObservations } from '../connected-apps/observations.ts';
import { createOwnKeys } from '../connected-apps/own-keys.ts';
import { createProviderClient } from '../connected-apps/provider-client.ts';
import { createProviderMetadata } from '../connected-apps/provider-metadata.ts';
import { createSigningKeys } from '../connected-apps/signing-keys.ts';
import type { OpenedStorage } from '../open-storage.ts';
import { createAddressPolicy } from '../outbound/address-policy.ts';
import { createOutbound, type Outbound } from '../outbound/outbound.ts';
import { StartRefused } from '../start-refused.ts';
import { withStorage } from './open-storage.ts';
import type { Terminal } from './terminal.ts';

export interface Checked {
  app: string;
  ok: boolean;
  findings: Finding[];
}

/** @throws StartRefused where the settings are wrong, or there is no such app */
export async function runDoctor(terminal: Terminal, id: string | undefined): Promise<Checked[]> {
  const { config, faults } = loadConfig(terminal.source);
  if (!config) throw new StartRefused(faults);
  const outbound = createOutbound({ policy: createAddressPolicy(config.internalHosts), proxy: config.proxy });
  try {
    return await withStorage(terminal.source, async (storage) => {
      const apps = (await registeredApps(terminal, config, storage)).filter((app) => id === undefined || app.id === id);
      if (id !== undefined && apps.length === 0)
        throw new StartRefused([`There is no connected app with the id "${id}".`]);
      const doctor = makeDoctor(config, storage, outbound);
      return Promise.all(
        apps.map(async (app) => {
          const findings = await doctor.run(app);
          return { app: app.id, ok: findings.every(({ result }) => result !== 'problem'), findings };
        }),
      );
    });
  } finally {
    await outbound.close();
  }
}

/** Those of the file and those that administrators registered. */
async function registeredApps(
  terminal: Terminal,
  config: Config,
  { store, sealer }: OpenedStorage,
): Promise<readonly ConnectedApp[]> {
  const { connectedAppsFile: file } = config;
  const parsed = file ? parseConnectedApps(terminal.source.readFile(file), terminal.source) : { apps: [], faults: [] };
  if (parsed.faults.length > 0) throw new StartRefused(parsed.faults);
  const apps = createAppStore(parsed.apps);
  const registry = await createAppRegistry({ store, sealer, apps, clock: Date.now });
  await registry.close();
  return apps.list();
}

function makeDoctor(config: Config, { store, sealer }: OpenedStorage, outbound: Outbound): AppCheck {
  const clock = Date.now;
  const metadata = createProviderMetadata({ outbound, clock, random: Math.random });
  const ownKeys = createOwnKeys({ store, sealer, clock });
  return createAppCheck({
    ...{ outbound, metadata, clock },
    provider: createProviderClient({
      outbound,
      metadata,
      signingKeys: createSigningKeys({ outbound, clock }),
      ownKeys,
    }),
    observations: createObservations({ store, clock }),
    publicHref: config.publicUrl.href,
  });
}

/** Judges a file for `CONNECTED_APPS_FILE`. @throws StartRefused where it cannot be read */
export function checkAppFile(terminal: Terminal, file: string): { apps: string[]; faults: string[] } {
  const { values } = loadConfig(terminal.source);
  const { apps, faults } = parseConnectedApps(
    readText(file),
    terminal.source,
    createAddressPolicy(values.internalHosts),
  );
  return {
    apps: apps.map(({ id }) => id),
    faults: faults.map((fault) => fault.replaceAll('CONNECTED_APPS_FILE', file)),
  };
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    throw new StartRefused([`${file} cannot be read: check the path and its permissions.`]);
  }
}
