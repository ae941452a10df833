/**
 * Owns the names of all that is stored: every key, what it holds and how long it lives, on one page.
 * The part in braces is the slot tag: what must change together carries the same one.
 *
 * | key | holds | lifetime |
 * | --- | --- | --- |
 * | `key-check` | a known text, sealed: shows at start that the keys fit the data | for ever |
 * | `key-check:KID` | the same, sealed by that key: shows two different keys of one id | for ever |
 * | `session:{ID_HASH}` | one browser's session, or the tombstone of an ended one | until its last possible use |
 * | `sessions-of:{USER}` | that user's sessions, at most 100: hash of the id, start, browser in words; and when the provider last ended all of them | 60 s longer than its newest session can last |
 * | `sessions-of-sid:{SID_HASH}` | the same by issuer and the provider's `sid` | the same |
 * | `logout-token:{TOKEN_HASH}` | that a provider's logout token was used, by issuer and `jti` | while it could be accepted once more |
 * | `transactions:{BROWSER_HASH}` | that browser's pending authorization requests (sealed), at most 10 | 600 s |
 * | `grant:{USER}:APP` | one grant: token set (sealed), version, health | until disconnected |
 * | `last-use:{USER}:APP` | when that grant was last used, to the minute | with the grant |
 * | lease `refresh-lease:{USER}:APP` | which process refreshes that grant | 4 s after its holder's last sign of life |
 * | index `open-refreshes` | user and app of refreshes that were begun and may be open, by time | until they are settled |
 * | index `grants:{USER}` | app ids of that user's grants by time of connecting | with the grants |
 * | `bin:{BIN}` | what the BIN lookup service answered | 30 days; "not found": 1 day |
 * | counter `bin-quota:{YYYY-MM}` | calls to the BIN lookup service in that UTC month | 100 days |
 * | `bin-service-pause` | until when the BIN lookup service asked not to be called (429) | as it said |
 */
import { createHash } from 'node:crypto';

/** SHA-256 in base64url: what is looked up by a secret is kept under its hash, so that a copy of the store opens nothing. */
export function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url');
}

export const keys = {
  keyCheck: 'key-check',
  session: (idHash: string) => `session:{${idHash}}`,
  sessionsOfUser: (userId: string) => `sessions-of:{${userId}}`,
  /** @param id of issuer and `sid`, hashed together */
  sessionsOfProviderSession: (id: string) => `sessions-of-sid:{${id}}`,
  logoutToken: (issuer: string, jti: string) => `logout-token:{${hashOf(JSON.stringify([issuer, jti]))}}`,
  transactions: (browserId: string) => `transactions:{${hashOf(browserId)}}`,
  grant: (userId: string, appId: string) => `grant:{${userId}}:${appId}`,
  lastUse: (userId: string, appId: string) => `last-use:{${userId}}:${appId}`,
  refreshLease: (userId: string, appId: string) => `refresh-lease:{${userId}}:${appId}`,
  openRefreshes: 'open-refreshes',
  grants: (userId: string) => `grants:{${userId}}`,
  bin: (bin: string) => `bin:{${bin}}`,
  binQuota: (month: string) => `bin-quota:{${month}}`,
  binServicePause: 'bin-service-pause',
} as const;
