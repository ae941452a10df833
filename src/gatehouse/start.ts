/** Starts Gatehouse: checks settings and files, reports all faults at once, and only then opens anything. */
import { readFileSync } from 'node:fs';
import type { Config } from '../shared/config/config.ts';
import type { ConfigSource } from '../shared/config/setting.ts';
import {
  createEventLoopMonitor,
  type EventLoopMonitor,
  enforceRequestLimits,
  LISTENER_LIMITS,
} from '../shared/http/limits.ts';
import { AT_ONCE, bindPorts, closeServer } from '../shared/http/listeners.ts';
import { refuseUnreadable } from '../shared/http/protocol.ts';
import { createRefuse, type OnRefused } from '../shared/http/refusal.ts';
import type { LogDestination } from '../shared/observability/logger.ts';
import { once } from '../shared/once.ts';
import { trustAuthorities } from '../shared/outbound/authorities.ts';
import { createRefusalPage } from '../shared/pages/refusal-page.ts';
import { createGatehouse, type Gatehouse } from './gatehouse.ts';
import { readSettings, readSettingsAndDataset } from './read-settings.ts';

export interface RunningGatehouse {
  config: Config;
  /** The connected apps as they are now. */
  apps: Gatehouse['apps'];
  /** Reloads `CONNECTED_APPS_FILE` and the files of secrets. Never rejects: the result is logged. */
  reload(): Promise<void>;
  /** Stops accepting requests, waits for those in flight within the grace period, and closes everything. */
  close(): Promise<void>;
}

export type Environment = ConfigSource['env'];

/**
 * @param createMonitor creates the monitor that decides whether new requests are refused
 * @param tourUrl see `GatehouseParts`
 * @throws StartRefused with every fault; any error of opening the storage
 */
export async function startGatehouse(
  env: Environment,
  logDestination: LogDestination,
  {
    createMonitor = createEventLoopMonitor,
    tourUrl,
  }: { createMonitor?: () => EventLoopMonitor; tourUrl?: string } = {},
): Promise<RunningGatehouse> {
  const source: ConfigSource = { env, readFile: (path) => readFileSync(path, 'utf8') };
  const parts = await readSettingsAndDataset(source);
  const { config } = parts;
  trustAuthorities(config.authorities);
  const page = createRefusalPage(config);
  // Ports come first: a process that cannot bind them must not touch the storage.
  const [main, management] = await bindPorts(config, page);
  try {
    let openGatehouse: Gatehouse | undefined;
    const onRefused: OnRefused = (...refusal) => openGatehouse?.onRefused(...refusal);
    const refuse = createRefuse({ publicHref: config.publicUrl.href, page, onRefused });
    for (const { server } of [main, management]) refuseUnreadable(server, refuse);
    const gatehouse = await createGatehouse({ ...parts, tourUrl, logDestination });
    openGatehouse = gatehouse;
    const limits = { limits: LISTENER_LIMITS, refuse };
    management.open(enforceRequestLimits({ ...limits, isBusy: () => false })(gatehouse.health.listener));
    const monitor = createMonitor();
    const withLimits = enforceRequestLimits({ ...limits, isBusy: monitor.isBusy });
    main.open(withLimits(gatehouse.app));
    const close = once(async () => {
      gatehouse.health.drain();
      await closeServer(main.server, config.shutdown);
      monitor.stop();
      await gatehouse.close();
      // Last, so that health checks see "not ready" instead of a dead process (R90).
      await closeServer(management.server, AT_ONCE);
    });
    return { config, apps: gatehouse.apps, reload: () => gatehouse.reload(() => readSettings(source)), close };
  } catch (error) {
    await Promise.all([main, management].map(({ server }) => closeServer(server, AT_ONCE)));
    throw error;
  }
}
