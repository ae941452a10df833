/** A form that is sent twice counts once; a failure to store its result does not hide the result. */
import type { Request } from 'express';
import { expect, test, vi } from 'vitest';
import { createSubmissions } from '../../../src/shared/pages/submissions.ts';

test('R106 the page with a new secret is shown even if the store fails right after the secret was created', async () => {
  const write = vi.fn().mockResolvedValueOnce(1).mockRejectedValue(new Error('The store is down.'));
  const { once } = createSubmissions({ store: { get: vi.fn(), write } });
  const req = { body: { _form: 'f1' }, originalUrl: '/admin/relay-tokens', context: { session: { ref: 's1' } } };
  expect(await once(req as unknown as Request, async () => '/admin/relay-tokens/t1')).toBe('/admin/relay-tokens/t1');
  expect(write).toHaveBeenCalledTimes(2);
});
