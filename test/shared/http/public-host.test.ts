/** R73: which requests under another name are sent to PUBLIC_URL, and where exactly. */
import express from 'express';
import { afterEach, describe, expect, test } from 'vitest';
import { parsePublicUrl } from '../../../src/shared/config/rules.ts';
import { publicHost } from '../../../src/shared/http/public-host.ts';
import { ask, DATA, PAGE } from '../../support/ask.ts';
import { type Served, serve } from './serve.ts';

let served: Served | undefined;
afterEach(() => served?.close());

async function at(href: string, { isTrusted = false } = {}) {
  const { publicUrl } = parsePublicUrl(href);
  if (!publicUrl) throw new Error(`${href} is no PUBLIC_URL.`);
  const app = express().set('query parser', false);
  app.use(
    publicHost({
      publicUrl,
      isTrusted: (address) => isTrusted && address === '127.0.0.1',
      isData: (path) => /^\/(threads\/|session$)/.test(path),
    }),
    (_req, res) => void res.send('here'),
  );
  served = await serve(app);
  const { url } = served;
  /** @returns where it is sent, or "here" */
  return async (target: string, headers: Record<string, string>, method = 'GET') => {
    const answer = await ask(url, { target, headers, method });
    if (answer.status === 302) return answer.headers.location;
    return answer.body || answer.status;
  };
}

describe('under another name', () => {
  const host = 'other.test';

  test('a page goes on under ours, a HEAD as well, and a POST is judged as it is', async () => {
    const goes = await at('https://gatehouse.test');
    expect(await goes('/connections?a=b', { ...PAGE, host })).toBe('https://gatehouse.test/connections?a=b');
    expect(await goes('/connections', { ...PAGE, host }, 'HEAD')).toBe('https://gatehouse.test/connections');
    expect(await goes('/connections', { ...PAGE, host }, 'POST')).toBe('here');
    expect(await goes('/connections', { ...PAGE, host }, 'DELETE')).toBe('here');
  });

  test('data is answered where it was asked for', async () => {
    const goes = await at('https://gatehouse.test');
    expect(await goes('/connections', { ...DATA, host })).toBe('here');
    expect(await goes('/session', { host })).toBe('here');
    expect(await goes('/threads/current', { accept: '*/*', host })).toBe('here');
    expect(await goes('/sessions', { host })).toBe('https://gatehouse.test/sessions');
    // A page is a page wherever it is.
    expect(await goes('/session', { ...PAGE, host })).toBe('https://gatehouse.test/session');
  });

  test('below a base path', async () => {
    const goes = await at('https://gatehouse.test/gate');
    expect(await goes('/gate/session', { host })).toBe('here');
    expect(await goes('/gate/sessions', { host })).toBe('https://gatehouse.test/gate/sessions');
  });

  test('R86 no card number is carried on', async () => {
    const goes = await at('https://gatehouse.test/gate');
    expect(await goes('/gate/x?4571736012345674', { ...PAGE, host })).toBe('https://gatehouse.test/gate/');
    expect(await goes('/gate/x?%34571736012345674', { ...PAGE, host })).toBe('https://gatehouse.test/gate/');
  });

  test('of a whole URL in the request line, path and query are ours; of what is none, nothing', async () => {
    const goes = await at('https://gatehouse.test');
    const page = { ...PAGE, host };
    expect(await goes('http://evil.test/connections?a=b', page)).toBe('https://gatehouse.test/connections?a=b');
    expect(await goes('http://evil.test', page)).toBe('https://gatehouse.test/');
    expect(await goes('*', page)).toBe('https://gatehouse.test/');
  });
});

describe('our own name', () => {
  test.each([
    ['https://gatehouse.test', 'gatehouse.test', true],
    ['https://gatehouse.test', 'GateHouse.TEST:443', true],
    ['https://gatehouse.test', 'gatehouse.test:80', false],
    ['https://gatehouse.test', 'gatehouse.test:4430', false],
    ['https://gatehouse.test', 'gatehouse.test:443:443', false],
    ['https://gatehouse.test', 'gatehouse:443.test', false],
    ['http://127.0.0.1', '127.0:80.0.1', false],
    ['http://127.0.0.1', '127.0.0.1:80', true],
    ['http://127.0.0.1', '127.0.0.1:443', false],
    ['http://127.0.0.1:8080', '127.0.0.1:8080', true],
    ['http://127.0.0.1:8080', '127.0.0.1', false],
  ])('of %s is %s: %s', async (href, host, isOurs) => {
    const goes = await at(href);
    expect(await goes('/x', { ...PAGE, host })).toBe(isOurs ? 'here' : `${href}/x`);
  });

  test('is what a proxy of ours says was asked for, first of all, and not its own', async () => {
    const goes = await at('https://gatehouse.test', { isTrusted: true });
    const asked = (name: string) => goes('/x', { ...PAGE, host: 'inner.test', 'x-forwarded-host': name });
    expect(await asked('gatehouse.test')).toBe('here');
    expect(await asked(' gatehouse.test , inner.test')).toBe('here');
    expect(await asked('inner.test, gatehouse.test')).toBe('https://gatehouse.test/x');
    expect(await goes('/x', { ...PAGE, host: 'inner.test' })).toBe('here');
  });

  test('is not what a stranger says', async () => {
    const goes = await at('https://gatehouse.test');
    const strange = { ...PAGE, host: 'other.test', 'x-forwarded-host': 'gatehouse.test' };
    expect(await goes('/x', strange)).toBe('https://gatehouse.test/x');
    expect(await goes('/x', { ...PAGE, host: 'gatehouse.test', 'x-forwarded-host': 'other.test' })).toBe('here');
  });
});
