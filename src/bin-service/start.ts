/** Owns the course of a start: settings first, all faults told at once, then the ports, and only then the storage. */
import { readFileSync } from 'node:fs';
import type { DestinationStream } from 'pino';
import { type DatasetFile, readDatasetFile } from '../bin/dataset-file.ts';
import type { ConfigSource } from '../config-reader.ts';
import { createBusyGauge, LISTENER_LIMITS, withinLimits } from '../http/limits.ts';
import { refuseUnreadable } from '../http/protocol.ts';
import { closeServer, takePorts } from '../listeners.ts';
import { openStore, redisFaults } from '../open-storage.ts';
import { StartRefused } from '../start-refused.ts';
import type { Store } from '../storage/store.ts';
import { assembleBinService, type BinServiceAssembly } from './assembly.ts';
import { type BinServiceSettings, loadBinServiceSettings } from './settings.ts';

export type Environment = ConfigSource['env'];

export interface RunningBinService {
  settings: BinServiceSettings;
  /** Stops taking requests, lets those in flight end within the grace, and closes everything. */
  close(): Promise<void>;
}

/** @throws StartRefused with every fault; whatever else goes wrong while opening */
export async function startBinService(env: Environment, logDestination: DestinationStream): Promise<RunningBinService> {
  const { settings, datasetFile } = await readSettings(env);
  const [main, management] = await takePorts(settings);
  try {
    refuseUnreadable(main.server, settings.publicUrl.href);
    const service = await openBinService({ settings, datasetFile, logDestination });
    management.open(service.health.listener);
    const busy = createBusyGauge();
    const { href: publicHref } = settings.publicUrl;
    main.open(withinLimits({ limits: LISTENER_LIMITS, isBusy: busy.isBusy, publicHref })(service.listener));
    let closing: Promise<void> | undefined;
    const stop = async () => {
      service.health.drain();
      await closeServer(main.server, settings.shutdownSeconds);
      busy.stop();
      await service.close();
      await closeServer(management.server, 0);
    };
    return {
      settings,
      close: () => {
        closing ??= stop();
        return closing;
      },
    };
  } catch (error) {
    await Promise.all([main, management].map(({ server }) => closeServer(server, 0)));
    throw error;
  }
}

/** The service with its storage and without ports, for whoever has some: `close` closes the storage too. @throws StartRefused */
export async function openBinService(parts: {
  settings: BinServiceSettings;
  datasetFile?: DatasetFile | undefined;
  logDestination: DestinationStream;
}): Promise<BinServiceAssembly> {
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

/** For the commands of an operator, beside a service that runs. @throws StartRefused */
export function readBinServiceSettings(env: Environment): BinServiceSettings {
  const { settings, faults } = loadBinServiceSettings({ env, readFile: (path) => readFileSync(path, 'utf8') });
  const all = [...faults, ...(settings ? redisFaults(settings) : [])];
  if (!settings || all.length > 0) throw new StartRefused(all);
  return settings;
}

export function openBinServiceStore(settings: BinServiceSettings): Promise<Store> {
  return openStore({ config: settings, clock: Date.now, random: Math.random, keyPrefix: 'bin-service:' });
}

async function readSettings(env: Environment): Promise<{ settings: BinServiceSettings; datasetFile?: DatasetFile }> {
  const settings = readBinServiceSettings(env);
  if (settings.datasetFile === undefined) return { settings };
  const answer = await readDatasetFile(settings.datasetFile);
  if (answer.problem === undefined) return { settings, datasetFile: answer };
  throw new StartRefused([`BIN_DATASET_FILE: ${answer.problem}`]);
}
