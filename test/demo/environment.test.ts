/** The environment variables of `npm run demo`, and their faults. */
import { expect, test } from 'vitest';
import { readEnvironment } from '../../src/demo/environment.ts';
import type { StartRefused } from '../../src/shared/errors.ts';

const faultsOf = (env: Record<string, string>): readonly string[] => {
  try {
    readEnvironment(env);
    return [];
  } catch (error) {
    return (error as StartRefused).faults;
  }
};

test('without variables, the public URL is that of the default port', () => {
  const url = 'http://127.0.0.1:3000';
  expect(readEnvironment({})).toMatchObject({ publicUrl: url, localUrl: url, isProxied: false, port: '3000' });
  expect(readEnvironment({ PORT: '', SANDBOX_PORT: '' })).toMatchObject({ publicUrl: url, sandboxPort: '3001' });
});

test('a front end on this machine can serve Gatehouse at another address and path', () => {
  expect(readEnvironment({ PORT: '3100', PUBLIC_URL: 'http://localhost:5173/gatehouse/' })).toMatchObject({
    publicUrl: 'http://localhost:5173/gatehouse',
    localUrl: 'http://127.0.0.1:3100/gatehouse',
    isProxied: true,
  });
});

test.each(['PORT', 'MANAGEMENT_PORT', 'SANDBOX_PORT'])('an invalid %s is refused', (name) => {
  for (const value of ['x', '0', '65536', '3000.5', '-1', ' 3000', '1e3'])
    expect(faultsOf({ [name]: value }), value).toEqual([
      expect.stringMatching(`^${name} must be a whole number from 1`),
    ]);
});

test.each(['https://gatehouse.example.com', 'http://192.0.2.1:5173', 'localhost:5173', 'x', 'http://localhost/?a=1'])(
  'PUBLIC_URL=%s is refused',
  (url) => {
    expect(faultsOf({ PUBLIC_URL: url })).toEqual([expect.stringMatching('^PUBLIC_URL')]);
  },
);

test('all faults are reported at once', () => {
  expect(faultsOf({ PORT: 'x', PUBLIC_URL: 'y', NODE_ENV: 'production' })).toHaveLength(3);
});
