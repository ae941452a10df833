/** The fault switches of the tour: their texts, and their effects on the provider. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { Access } from '../sandbox/switches.ts';

/**
 * The switches. The first connected user of `users` shows the effect. After an outage, Gatehouse waits before it
 * refreshes a connection again, so the other switches have other users.
 */
export const SWITCHES = {
  expire: {
    title: 'The access token expires early',
    press: 'Expire this token',
    users: ['user', 'amara.obi'],
    words:
      'The platform refuses the access token. Gatehouse refreshes it once and repeats the call, so the caller notices nothing.',
    see: { path: 'admin/relay-tokens', words: 'Relay tokens' },
  },
  outage: {
    title: 'The provider is down',
    press: 'Make the provider fail',
    users: ['chiara.romano'],
    words:
      'The access token has expired, and every endpoint of the provider responds with 503. Gatehouse keeps the connection. When the provider works again, Gatehouse refreshes after about 30 seconds.',
    see: { path: 'admin/connections?health=unverified', words: 'Unverified connections' },
  },
  keys: {
    title: 'The provider rotates its keys',
    press: 'Rotate its keys',
    users: ['elif.kaya'],
    words:
      'The provider publishes new keys, and signs ID tokens with them ten seconds later. Gatehouse reads the published keys again in time, so nothing breaks.',
    see: { path: 'admin/connected-apps/platform', words: 'The connected app and its check' },
  },
  revoke: {
    title: 'The user withdraws consent',
    press: 'Revoke the grant',
    users: ['user', 'benoit.lefevre', 'daniel.weiss'],
    words:
      'The provider refuses the refresh token for good. The connection becomes “Reconnect needed”. Gatehouse sends a webhook message, and returns a link with which the user reconnects.',
    see: { path: 'admin/connections?health=reconnect_needed', words: 'Connections that need reconnecting' },
  },
} as const satisfies Record<string, { users: readonly string[]; [word: string]: unknown }>;

export type SwitchName = keyof typeof SWITCHES;

export const isSwitch = (name: string): name is SwitchName => Object.hasOwn(SWITCHES, name);
export const RELEASE = 'Let the provider work again';

/** The endpoints that Gatehouse calls. Pages for users, including the tour, still work. */
const ENDPOINTS = ['/authorize', '/token', '/jwks', '/userinfo', '/revoke', '/par', '/.well-known'];
/** The new keys are published for this long before they sign, which is longer than Gatehouse caches keys. */
const PUBLISHED_MS = 11_000;

export interface FaultSwitches {
  /** True during an outage. */
  isDown(): boolean;
  /** Ends the outage. @param say reports what the provider does */
  restore(say: (words: string) => void): void;
  /** Resolves when the next call shows the effect. */
  press(name: SwitchName, access: Access, say: (words: string) => void): Promise<void>;
}

export function createFaultSwitches({ switches, faults }: Pick<Sandbox, 'switches' | 'faults'>): FaultSwitches {
  let endFaults: (() => void)[] = [];

  return {
    isDown: () => endFaults.length > 0,
    restore(say) {
      if (endFaults.length > 0) say('works again');
      for (const end of endFaults.splice(0)) end();
    },
    async press(name, access, say) {
      if (name === 'outage') {
        endFaults = ENDPOINTS.map((path) => faults.set({ listener: 'identity-provider', path, kind: 'unavailable' }));
        say('responds with 503');
      }
      if (name === 'keys') {
        await switches.publishNextKeys();
        say('publishes new keys');
        await sleep(PUBLISHED_MS, undefined, { ref: false });
        switches.signWithNextKeys();
        say('signs with the new keys');
      }
      if (name === 'revoke') {
        switches.revoke(access);
        return say('ends every token of this consent');
      }
      // With a valid access token, the next call would not need the provider.
      switches.expireAccessTokens(access);
      say('ends the access token');
    },
  };
}
