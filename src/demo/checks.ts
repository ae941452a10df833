/** Checks the demo's apps as the administration does, so that the first visitor sees the results. */
import { readFileApps } from '../commands/run-doctor.ts';
import type { Config } from '../config/config.ts';
import type { ConfigSource } from '../config/setting.ts';
import { createConnectedApps } from '../connected-apps/connected-apps.ts';
import { createAddressPolicy } from '../outbound/address-policy.ts';
import { createOutbound } from '../outbound/outbound.ts';
import type { OpenedStorage } from '../storage/storage.ts';

export async function checkApps(parts: {
  source: ConfigSource;
  config: Config;
  storage: OpenedStorage;
}): Promise<void> {
  const { source, config, storage } = parts;
  const outbound = createOutbound({ policy: createAddressPolicy(config.internalHosts) });
  try {
    const { apps, checks, close } = await createConnectedApps({
      ...{ storage, outbound, fromFile: readFileApps({ source }, config), publicHref: config.publicUrl.href },
      ...{ clock: Date.now, monotonicClock: () => performance.now(), random: Math.random },
    });
    await Promise.all(apps.list().map(checks.run)).finally(close);
  } finally {
    await outbound.close();
  }
}
