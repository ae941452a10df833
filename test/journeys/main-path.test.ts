/** The main flow from end to end over real HTTP, with a user agent that follows redirects and fills forms. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createUserAgent } from '../support/browserless.ts';
import { getJson, JSON_ONLY, signIn, type TestSite } from '../support/gatehouse.ts';
import { withoutRandomTexts } from '../support/random-texts.ts';
import { startDocumentedSite } from '../support/recorded-responses.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startDocumentedSite();
});
afterAll(() => site.close());

describe('the main flow', () => {
  test('signs in, consents, reads the thread and looks up a BIN', async () => {
    const { agent, page } = await signIn(site);
    expect(page.url).toBe(`${site.url}/`);
    expect(page.body).toContain('Spring launch');

    const thread = await getJson(agent, `${site.url}/threads/current`);
    expect(thread.status).toBe(200);
    expect(thread.json).toMatchObject({ thread: { author: { name: 'Uma Okafor' } } });

    const bin = await getJson(agent, `${site.url}/bin/45717360`);
    expect(bin.status).toBe(200);
    expect(bin.json).toMatchObject({ scheme: 'visa', country: { alpha2: 'DK' }, bank: { name: 'Jyske Bank' } });
  });

  test('returns 401 sign_in_required without the cookie', async () => {
    for (const path of ['/threads/current', '/bin/45717360']) {
      const { status, json } = await getJson(createUserAgent(), site.url + path);
      expect({ status, code: json.code }).toEqual({ status: 401, code: 'sign_in_required' });
    }
  });

  test('returns 400 invalid_bin for 5 and for 16 digits', async () => {
    const { agent } = await signIn(site);
    for (const digits of ['45717', '4571736012345678']) {
      const page = await agent.get(`${site.url}/bin/${digits}`, JSON_ONLY);
      expect(page.status).toBe(400);
      expect(JSON.parse(page.body).code).toBe('invalid_bin');
      expect(withoutRandomTexts(page.body)).not.toContain(digits);
    }
  });

  test('keeps users signed in and connected over a restart', async () => {
    const { agent } = await signIn(site, 'second@example.test');
    await site.restart();
    const { status, json } = await getJson(agent, `${site.url}/threads/current`);
    expect(status).toBe(200);
    expect(json).toMatchObject({ thread: { author: { name: 'Sven Lindqvist' } } });
  });
});
