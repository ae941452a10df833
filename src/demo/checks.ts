/** Runs the checks of the demo's apps, so that the first visitor sees their results. */
import { readFileApps } from '../gatehouse/commands/file-apps.ts';
import { createConnectedApps } from '../gatehouse/connected-apps/connected-apps.ts';
import type { Config } from '../shared/config/config.ts';
import type { ConfigSource } from '../shared/config/setting.ts';
import { createAddressPolicy } from '../shared/outbound/address-policy.ts';
import { createOutbound } from '../shared/outbound/outbound.ts';
import type { OpenedStorage } from '../shared/storage/storage.ts';

export async function checkApps(parts: {
  source: ConfigSource;
  config: Config;
  storage: OpenedStorage;
}): Promise<void> {
  const { source, config, storage } = parts;
  const outbound = createOutbound({ policy: createAddressPolicy(config.internalHosts) });
  try {
    const { apps, checks, close } = await createConnectedApps({
      storage,
      outbound,
      fromFile: readFileApps({ source }, config),
      publicHref: config.publicUrl.href,
      clock: Date.now,
      monotonicClock: () => performance.now(),
      random: Math.random,
    });
    await Promise.all(apps.list().map(checks.run)).finally(close);
  } finally {
    await outbound.close();
  }
}
