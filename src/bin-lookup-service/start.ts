/**
 * Starts the BIN lookup service: reads settings and reports all faults at once, binds the ports, then opens the
 * storage.
 */
import { readFileSync } from 'node:fs';
import { type DatasetFile, readDatasetFile } from '../shared/bin/dataset-file.ts';
import type { ConfigSource } from '../shared/config/setting.ts';
import { StartRefused } from '../shared/errors.ts';
import { createEventLoopMonitor, enforceRequestLimits, LISTENER_LIMITS } from '../shared/http/limits.ts';
import { AT_ONCE, bindPorts, closeServer } from '../shared/http/listeners.ts';
import { refuseUnreadable } from '../shared/http/protocol.ts';
import { createRefuse, type OnRefused } from '../shared/http/refusal.ts';
import type { LogDestination } from '../shared/observability/logger.ts';
import { trustAuthorities } from '../shared/outbound/authorities.ts';
import { createRefusalPage } from '../shared/pages/refusal-page.ts';
import { identifyStore } from '../shared/storage/identified-store.ts';
import { agreeOnSchema } from '../shared/storage/schema-version.ts';
import { openStore, redisAddressFaults } from '../shared/storage/storage.ts';
import type { Store } from '../shared/storage/store.ts';
import { assembleBinService, type BinServiceAssembly, type BinServiceParts } from './assembly.ts';
import { type BinServiceSettings, loadBinServiceSettings } from './settings.ts';

export type Environment = ConfigSource['env'];

export interface RunningBinService {
  settings: BinServiceSettings;
  /** Serves for another SHUTDOWN_DELAY_SECONDS, waits up to SHUTDOWN_SECONDS for open requests, then closes. */
  close(): Promise<void>;
}

/** @throws StartRefused with all faults, or the error of opening the storage */
export async function startBinService(env: Environment, logDestination: LogDestination): Promise<RunningBinService> {
  const { settings, datasetFile } = await readSettings(env);
  const page = createRefusalPage(settings);
  const [main, management] = await bindPorts(settings, page);
  try {
    let opened: BinServiceAssembly | undefined;
    const onRefused: OnRefused = (...refusal) => opened?.onRefused(...refusal);
    const refuse = createRefuse({ publicHref: settings.publicUrl.href, page, onRefused });
    for (const { server } of [main, management]) refuseUnreadable(server, refuse);
    const service = await openBinService({ settings, datasetFile, logDestination });
    opened = service;
    const limits = { limits: LISTENER_LIMITS, refuse };
    management.open(enforceRequestLimits({ ...limits, isBusy: () => false })(service.health.listener));
    const busy = createEventLoopMonitor();
    main.open(enforceRequestLimits({ ...limits, isBusy: busy.isBusy })(service.listener));
    let closing: Promise<void> | undefined;
    const stop = async () => {
      service.health.drain();
      await closeServer(main.server, settings.shutdown);
      busy.stop();
      await service.close();
      await closeServer(management.server, AT_ONCE);
    };
    return {
      settings,
      close: () => {
        closing ??= stop();
        return closing;
      },
    };
  } catch (error) {
    await Promise.all([main, management].map(({ server }) => closeServer(server, AT_ONCE)));
    throw error;
  }
}

/** Opens the service with its storage, and no ports. `close` closes the storage too. @throws StartRefused */
export async function openBinService(parts: Omit<BinServiceParts, 'store'>): Promise<BinServiceAssembly> {
  const store = await openBinServiceStore(parts.settings);
  const service = assembleBinService({ ...parts, store });
  return {
    ...service,
    async close() {
      await service.close();
      await store.close();
    },
  };
}

/** Reads the settings, also for commands while the service runs. @throws StartRefused */
export function readBinServiceSettings(env: Environment): BinServiceSettings {
  const { settings, faults } = loadBinServiceSettings({ env, readFile: (path) => readFileSync(path, 'utf8') });
  const allFaults = [...faults, ...(settings ? redisAddressFaults(settings) : [])];
  if (!settings || allFaults.length > 0) throw new StartRefused(allFaults);
  return settings;
}

/** @throws StartRefused */
export async function openBinServiceStore(settings: BinServiceSettings): Promise<Store> {
  trustAuthorities(settings.authorities);
  let onReconnect = () => {};
  const store = await openStore({
    config: settings,
    clock: Date.now,
    random: Math.random,
    keyPrefix: 'bin-lookup-service:',
    onReconnect: () => onReconnect(),
  });
  try {
    const identified = identifyStore({ store, identity: await agreeOnSchema(store), onFailover: () => undefined });
    onReconnect = identified.reconnected;
    return identified.store;
  } catch (error) {
    await store.close();
    throw error;
  }
}

async function readSettings(env: Environment): Promise<{ settings: BinServiceSettings; datasetFile?: DatasetFile }> {
  const settings = readBinServiceSettings(env);
  if (settings.datasetFile === undefined) return { settings };
  const shapeAdvice = 'Rename the columns of the file to match one of them.';
  const read = await readDatasetFile(settings.datasetFile, { shapeAdvice });
  if (read.problem === undefined) return { settings, datasetFile: read };
  throw new StartRefused([`BIN_DATASET_FILE: ${read.problem}`]);
}
