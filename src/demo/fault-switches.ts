/** The fault switches of the tour: their words, and what each does to the provider. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { Access } from '../sandbox/switches.ts';

/**
 * `users`: whose connection shows the effect, the first that is connected. After an outage Gatehouse waits before it refreshes a
 * connection again, so the other switches have other users.
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
      'The access token has expired, and every endpoint of the provider responds with 503. Gatehouse keeps the connection. Once the provider works again, it refreshes after a pause of about 30 seconds.',
    see: { path: 'admin/connections?health=unverified', words: 'Unverified connections' },
  },
  keys: {
    title: 'The provider rotates its keys',
    press: 'Rotate its keys',
    users: ['elif.kaya'],
    words:
      'New keys are published, and sign ID tokens ten seconds later. Gatehouse reads the published keys again in time, so nothing breaks.',
    see: { path: 'admin/connected-apps/platform', words: 'The connected app and its check' },
  },
  revoke: {
    title: 'The user withdraws consent',
    press: 'Revoke the grant',
    users: ['user', 'benoit.lefevre', 'daniel.weiss'],
    words:
      'The provider refuses the refresh token for good. Gatehouse marks the connection “Reconnect needed”, sends a webhook message, and gives the caller a link with which the user reconnects.',
    see: { path: 'admin/connections?health=reconnect_needed', words: 'Connections that need reconnecting' },
  },
} as const satisfies Record<string, { users: readonly string[]; [word: string]: unknown }>;

export type SwitchName = keyof typeof SWITCHES;

export const isSwitch = (name: string): name is SwitchName => Object.hasOwn(SWITCHES, name);
export const RELEASE = 'Let the provider work again';

/** Where Gatehouse calls the provider. Pages for users, among them the tour, still work. */
const ENDPOINTS = ['/authorize', '/token', '/jwks', '/userinfo', '/revoke', '/par', '/.well-known'];
/** Longer than Gatehouse uses keys without reading them again. */
const PUBLISHED_MS = 11_000;

export interface FaultSwitches {
  /** True during an outage. */
  isDown(): boolean;
  /** Ends the outage. @param say tells what the provider does */
  restore(say: (words: string) => void): void;
  /** Resolves once it is done, so that a call shows the effect. */
  press(name: SwitchName, access: Access, say: (words: string) => void): Promise<void>;
}

export function createFaultSwitches({ switches, faults }: Pick<Sandbox, 'switches' | 'faults'>): FaultSwitches {
  let ending: (() => void)[] = [];

  return {
    isDown: () => ending.length > 0,
    restore(say) {
      if (ending.length > 0) say('works again');
      for (const end of ending.splice(0)) end();
    },
    async press(name, access, say) {
      if (name === 'outage') {
        ending = ENDPOINTS.map((path) => faults.set({ on: 'identity-provider', path, kind: 'unavailable' }));
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
      // Without this, the next call would need nothing of the provider.
      switches.expireAccessTokens(access);
      say('ends the access token');
    },
  };
}
