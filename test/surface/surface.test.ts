/** What is stable within a major version (docs/upgrading.md): compares it with `surface.json`, which `-- -u` writes. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { startWithoutSandbox } from '../support/gatehouse.ts';
import { sendRequest } from '../support/send-request.ts';
import { breaksOf } from './breaks.ts';
import { fromFile, toFile } from './packed.ts';
import { currentSurface, type Surface } from './surface.ts';

const FILE = join(import.meta.dirname, 'surface.json');
const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '..', '..', 'package.json'), 'utf8'));
/** Until a major version is released, its candidates may change everything. */
const isFrozen = !/^\d+\.0\.0-/.test(version);

let current: Surface;
beforeAll(async () => {
  const gatehouse = await startWithoutSandbox({ apps: [] });
  current = await currentSurface(JSON.parse((await sendRequest(`${gatehouse.url}/openapi.json`)).body));
  await gatehouse.close();
});

test('nothing that is stable has been removed or changed, and what is new is in surface.json', async () => {
  const released: Surface = existsSync(FILE) ? fromFile(readFileSync(FILE, 'utf8')) : {};
  // First, since `-u` must not write a break.
  if (isFrozen) expect(breaksOf(released, current)).toEqual([]);
  await expect(toFile(current)).toMatchFileSnapshot(FILE);
});

test('the file has everything, although it names a shape that occurs again', () => {
  expect(fromFile(toFile(current))).toEqual(current);
});
