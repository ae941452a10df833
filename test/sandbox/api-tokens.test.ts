/** API tokens end to the millisecond, and neither they nor any other secret is to be had a second time. */
import { describe, expect, it } from 'vitest';
import { createApiTokens } from '../../src/sandbox/api-tokens.ts';
import { createReveals } from '../../src/sandbox/console/reveals.ts';

describe('API tokens', () => {
  const made = { name: 'Nightly', accountId: 'a', scopes: ['platform_read_only'], madeBy: 'the test' };

  it('are kept without the token itself', () => {
    const tokens = createApiTokens({ now: () => 5 });
    const { apiToken, token } = tokens.make(made);
    expect(token).toMatch(/^sbxt_[\w-]{43}$/);
    expect(JSON.stringify([apiToken, tokens.all])).not.toContain(token.slice(9));
    expect(tokens.make(made).token).not.toBe(token);
  });

  it('note their use, and end by time or by revocation', () => {
    const clock = { ms: 1_000 };
    const tokens = createApiTokens({ now: () => clock.ms });
    const { apiToken, token } = tokens.make({ ...made, expiresAtMs: 5_000 });
    const lasting = tokens.make(made);
    expect(tokens.byId(apiToken.id)?.lastUsedAtMs).toBeUndefined();
    clock.ms = 4_999;
    expect(tokens.use(token)?.accountId).toBe('a');
    expect(tokens.byId(apiToken.id)?.lastUsedAtMs).toBe(4_999);
    clock.ms = 5_000;
    expect(tokens.use(token)).toBeUndefined();
    expect(tokens.use(lasting.token)?.id).toBe(lasting.apiToken.id);
    tokens.revoke(lasting.apiToken.id);
    expect(tokens.use(lasting.token)).toBeUndefined();
    expect(tokens.byId(lasting.apiToken.id)?.revokedAtMs).toBe(5_000);
  });
});

it('a secret is shown once, and not after ten minutes', () => {
  const clock = { ms: 0 };
  const reveals = createReveals({ now: () => clock.ms });
  reveals.keep('a', 'secret');
  reveals.keep('b', 'late');
  expect([reveals.take('a'), reveals.take('a')]).toEqual(['secret', undefined]);
  clock.ms = 10 * 60 * 1000;
  expect(reveals.take('b')).toBeUndefined();
});
