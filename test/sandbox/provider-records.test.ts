/** The lifetime and the number of the identity provider's records. */
import { describe, expect, it } from 'vitest';
import { createProviderRecords } from '../../src/sandbox/provider-records.ts';

function recordsAt(start: number, maxRecords = 10) {
  const clock = { ms: start };
  return { clock, ...createProviderRecords({ now: () => clock.ms, maxRecords }) };
}

describe('provider records', () => {
  it('expire to the millisecond', async () => {
    const { clock, adapterFor } = recordsAt(0);
    const tokens = adapterFor('AccessToken');
    await tokens.upsert('a', { grantId: 'g' }, 60);
    clock.ms = 59_999;
    expect(await tokens.find('a')).toEqual({ grantId: 'g' });

    clock.ms = 60_000;
    expect(await tokens.find('a')).toBeUndefined();
  });

  it('are found by uid until they are destroyed, and revoked by grant within their kind', async () => {
    const { adapterFor } = recordsAt(0);
    const [sessions, tokens] = [adapterFor('Session'), adapterFor('AccessToken')];
    await sessions.upsert('s', { uid: 'u' }, 60);
    expect(await sessions.findByUid('u')).toEqual({ uid: 'u' });

    await sessions.destroy('s');
    expect(await sessions.findByUid('u')).toBeUndefined();

    await sessions.upsert('s', { grantId: 'g' }, 60);
    await tokens.upsert('a', { grantId: 'g' }, 60);
    await tokens.revokeByGrantId('g');
    expect(await tokens.find('a')).toBeUndefined();
    expect(await sessions.find('s')).toBeDefined();
  });

  it('are returned as copies, and record their use', async () => {
    const codes = recordsAt(5_000).adapterFor('AuthorizationCode');
    await codes.upsert('c', { grantId: 'g' }, 60);
    const copy = await codes.find('c');
    if (copy) copy.grantId = 'other';
    await codes.consume('c');
    expect(await codes.find('c')).toEqual({ grantId: 'g', consumed: 5 });
  });

  it('over the maximum are dropped: expired records first, then the oldest', async () => {
    const { clock, adapterFor } = recordsAt(0, 10);
    const tokens = adapterFor('AccessToken');
    await tokens.upsert('brief', {}, 1);
    for (let index = 0; index < 9; index += 1) await tokens.upsert(`t${index}`, {}, 60);
    clock.ms = 2_000;
    await tokens.upsert('t0', {}, 60);
    await tokens.upsert('late', {}, 60);
    expect(await tokens.find('t1')).toBeDefined();

    await tokens.upsert('later', {}, 60);
    expect(await tokens.find('t1')).toBeUndefined();
    expect(await tokens.find('t0')).toBeDefined();
    expect(await tokens.find('later')).toBeDefined();
  });
});
