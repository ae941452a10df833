/** API tokens expire to the millisecond. Like other secrets, they are shown only once. */
import { describe, expect, it } from 'vitest';
import { createApiTokens } from '../../src/sandbox/api-tokens.ts';
import { createOneTimeSecrets } from '../../src/sandbox/console/one-time-secrets.ts';

describe('API tokens', () => {
  const newToken = { name: 'Nightly', accountId: 'a', scopes: ['platform_read_only'], createdBy: 'the test' };

  it('are stored without the token itself', () => {
    const tokens = createApiTokens({ now: () => 5 });
    const { apiToken, token } = tokens.create(newToken);
    expect(token).toMatch(/^sbxt_[\w-]{43}$/);
    expect(JSON.stringify([apiToken, tokens.all])).not.toContain(token.slice(9));
    expect(tokens.create(newToken).token).not.toBe(token);
  });

  it('record their use, and end by expiry or revocation', () => {
    const clock = { ms: 1_000 };
    const tokens = createApiTokens({ now: () => clock.ms });
    const { apiToken, token } = tokens.create({ ...newToken, expiresAtMs: 5_000 });
    const tokenWithoutExpiry = tokens.create(newToken);
    expect(tokens.byId(apiToken.id)?.lastUsedAtMs).toBeUndefined();

    clock.ms = 4_999;
    expect(tokens.use(token)?.accountId).toBe('a');
    expect(tokens.byId(apiToken.id)?.lastUsedAtMs).toBe(4_999);

    clock.ms = 5_000;
    expect(tokens.use(token)).toBeUndefined();
    expect(tokens.use(tokenWithoutExpiry.token)?.id).toBe(tokenWithoutExpiry.apiToken.id);

    tokens.revoke(tokenWithoutExpiry.apiToken.id);
    expect(tokens.use(tokenWithoutExpiry.token)).toBeUndefined();
    expect(tokens.byId(tokenWithoutExpiry.apiToken.id)?.revokedAtMs).toBe(5_000);
  });
});

it('a new secret can be shown once, within ten minutes', () => {
  const clock = { ms: 0 };
  const oneTimeSecrets = createOneTimeSecrets({ now: () => clock.ms });
  oneTimeSecrets.put('a', 'secret');
  oneTimeSecrets.put('b', 'late');
  expect([oneTimeSecrets.take('a'), oneTimeSecrets.take('a')]).toEqual(['secret', undefined]);

  clock.ms = 10 * 60 * 1000;
  expect(oneTimeSecrets.take('b')).toBeUndefined();
});
