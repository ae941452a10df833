/** R119: the lists of connections are corrected after failed writes. */
import { expect, test } from 'vitest';
import type { Grant, StoredGrant } from '../../../src/gatehouse/grants/grant.ts';
import { createListing } from '../../../src/gatehouse/grants/listing.ts';

const grantOf = (version: number) => ({ userId: 'u1', appId: 'platform', id: `c${version}` }) as Grant;
const storedOf = (version: number): StoredGrant => ({ grant: grantOf(version), version });

/** @param options `failing`: how many writes of the lists fail first */
function listingOf({ failing, current }: { failing: number; current: () => StoredGrant | undefined }) {
  const listed: string[] = [];
  let lost = 0;
  const write = async (text: string) => {
    failing -= 1;
    if (failing >= 0) throw new Error('away');
    listed.push(text);
  };
  const listing = createListing({
    index: { update: (grant) => write(grant.id), drop: () => write('dropped') },
    load: async () => current(),
    onLost: (connections) => (lost += connections),
  });
  return { listing, listed, lost: () => lost };
}

test('R119 lists a connection once the storage is back, by its current grant', async () => {
  const versions = [storedOf(2), storedOf(3), storedOf(3)];
  const { listing, listed, lost } = listingOf({ failing: 1, current: () => versions.shift() });
  await listing.update(grantOf(1), { version: 1, replacedVersion: 0 });
  expect(listed).toEqual([]);
  await listing.close();
  expect([listed, lost()]).toEqual([['c2', 'c3'], 0]);
});

test('R119 removes an ended connection from the lists once the storage is back', async () => {
  const { listing, listed, lost } = listingOf({ failing: 1, current: () => undefined });
  await listing.drop({ userId: 'u1', appId: 'platform' });
  await listing.close();
  expect([listed, lost()]).toEqual([['dropped'], 0]);
});

test('R119 counts the connections that a stop leaves unlisted', async () => {
  const { listing, lost } = listingOf({ failing: Number.POSITIVE_INFINITY, current: () => storedOf(2) });
  await listing.update(grantOf(1), { version: 1, replacedVersion: 0 });
  await listing.close();
  expect(lost()).toBe(1);
});
