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
const readSentStreams = () => recorder.sentTo([Number(new URL(service.url).port)]);
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

/** Card numbers, and shorter or longer numbers, as people and programs write them. */
const digits = fc.array(fc.nat(9), { minLength: 5, maxLength: 18 }).map((list) => withCheckDigit(list.join('')));
const writtenNumber = fc.tuple(digits, fc.constantFrom('', ' ', '-', '.', '+', '\t')).map(([number, separator]) => {
  return separator === '' ? number : (number.match(/.{1,4}/g) ?? []).join(separator);
});

test('R86: a number in the path, query, JSON, form or headers is sent with at most 8 digits', async () => {
  await fc.assert(
    fc.asyncProperty(writtenNumber, async (text) => {
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
  const streams = readSentStreams();
  // The recorder has seen the requests,
  expect(streams).toMatch(/^GET \/\d{6,8} HTTP/m);
  expect(service.hits.length).toBeGreaterThan(30);
  // and so has the watch over the whole test run.
  expect(countBinRequests()).toBe(service.hits.length);
  expect(streams).not.toMatch(/\d{9}/);
  expect(service.hits.filter(({ url }) => !/^\/\d{6,8}$/.test(url))).toEqual([]);
});
