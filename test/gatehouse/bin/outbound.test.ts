/** R86: no request to the BIN lookup service contains nine successive digits of the input. */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { countBinRequests } from '../../support/bin-watch.ts';
import { withCheckDigit } from '../../support/bins.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { recordOutbound } from '../../support/outbound-recorder.ts';
import {
  type ScriptedBinService,
  sendJson,
  startScriptedBinService,
} from '../../support/scripted-bin-lookup-service.ts';
import { ACCEPT_JSON, FORM_BODY, JSON_BODY, sendRequest } from '../../support/send-request.ts';

let service: ScriptedBinService;
let site: TestSite;
let headers: Record<string, string>;
const recorder = recordOutbound();
const sent = () => recorder.sentTo([Number(new URL(service.url).port)]);
beforeAll(async () => {
  service = await startScriptedBinService();
  service.respondWith((response) => sendJson(response, { scheme: 'visa' }));
  site = await startSite({ env: { BIN_SERVICE_URL: service.url, LOG_LEVEL: 'trace' } });
  const { agent } = await signIn(site);
  const { json } = await getJson(agent, `${site.url}/session`);
  headers = { cookie: agent.cookies.header(site.url), 'x-csrf-token': String(json.csrfToken) };
});
afterAll(async () => {
  recorder.stop();
  await site.close();
  await service.close();
});

/** Card numbers as people and programs write them, and what lies near. */
const digits = fc.array(fc.nat(9), { minLength: 5, maxLength: 18 }).map((list) => withCheckDigit(list.join('')));
const typed = fc.tuple(digits, fc.constantFrom('', ' ', '-', '.', '+', '\t')).map(([number, separator]) => {
  return separator === '' ? number : (number.match(/.{1,4}/g) ?? []).join(separator);
});

test('R86: by path, query, JSON, form and headers', async () => {
  await fc.assert(
    fc.asyncProperty(typed, async (text) => {
      const body = JSON.stringify({
        bins: [text, [text], Number(text.replace(/\D/g, '')), text.replace(/\D/g, '').slice(0, 8)],
      });
      const form = new URLSearchParams({ bin: text }).toString();
      const path = `${site.url}/bin/${encodeURIComponent(text)}`;
      await Promise.all([
        sendRequest(path, { headers: { ...ACCEPT_JSON, ...headers } }),
        sendRequest(`${site.url}/bin/457173?bin=${encodeURIComponent(text)}`, {
          headers: { ...ACCEPT_JSON, ...headers },
        }),
        sendRequest(`${site.url}/bin/457173`, {
          headers: { ...ACCEPT_JSON, ...headers, 'x-bin': text.trim(), 'user-agent': text.trim() },
        }),
        sendRequest(`${site.url}/bin`, { method: 'POST', headers: { ...JSON_BODY, ...headers }, body }),
        sendRequest(`${site.url}/bin`, { method: 'POST', headers: { ...FORM_BODY, ...headers }, body: form }),
      ]);
    }),
    { numRuns: 60 },
  );
  const streams = sent();
  // The recorder heard what did leave.
  expect(streams).toMatch(/^GET \/\d{6,8} HTTP/m);
  expect(service.hits.length).toBeGreaterThan(30);
  // So did the watch over the whole run.
  expect(countBinRequests()).toBe(service.hits.length);
  expect(streams).not.toMatch(/\d{9}/);
  expect(service.hits.filter(({ url }) => !/^\/\d{6,8}$/.test(url))).toEqual([]);
});
