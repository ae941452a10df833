/** R119: the lists of connections are corrected after failed writes. */
import { expect, test } from 'vitest';
import type { Grant, StoredGrant } from '../../../src/gatehouse/grants/grant.ts';
import { createListing } from '../../../src/gatehouse/grants/listing.ts';

const grantOf = (version: number) => ({ userId: 'u1', appId: 'platform', id: `c${version}` }) as Grant;
const storedOf = (version: number): StoredGrant => ({ grant: grantOf(version), version });

/**
 * @param options.remainingFailures how many writes of the lists fail first
 * @param options.loadCurrent returns the grant that is stored at each read
 */
function listingOf({
  remainingFailures,
  loadCurrent,
}: {
  remainingFailures: number;
  loadCurrent: () => StoredGrant | undefined;
}) {
  const listedTexts: string[] = [];
  let lostConnections = 0;
  const write = async (text: string) => {
    remainingFailures -= 1;
    if (remainingFailures >= 0) throw new Error('away');
    listedTexts.push(text);
  };
  const listing = createListing({
    index: { update: (grant) => write(grant.id), drop: () => write('dropped') },
    load: async () => loadCurrent(),
    onLost: (connections) => (lostConnections += connections),
  });
  return { listing, listedTexts, lostConnections: () => lostConnections };
}

test('R119 lists a connection once the storage is back, by its current grant', async () => {
  const versions = [storedOf(2), storedOf(3), storedOf(3)];
  const { listing, listedTexts, lostConnections } = listingOf({
    remainingFailures: 1,
    loadCurrent: () => versions.shift(),
  });
  await listing.update(grantOf(1), { version: 1, replacedVersion: 0 });

  expect(listedTexts).toEqual([]);

  await listing.close();
  expect([listedTexts, lostConnections()]).toEqual([['c2', 'c3'], 0]);
});

test('R119 removes an ended connection from the lists once the storage is back', async () => {
  const { listing, listedTexts, lostConnections } = listingOf({ remainingFailures: 1, loadCurrent: () => undefined });
  await listing.drop({ userId: 'u1', appId: 'platform' });
  await listing.close();

  expect([listedTexts, lostConnections()]).toEqual([['dropped'], 0]);
});

test('R119 counts the connections that a stop leaves unlisted', async () => {
  const { listing, lostConnections } = listingOf({
    remainingFailures: Number.POSITIVE_INFINITY,
    loadCurrent: () => storedOf(2),
  });
  await listing.update(grantOf(1), { version: 1, replacedVersion: 0 });
  await listing.close();

  expect(lostConnections()).toBe(1);
});
