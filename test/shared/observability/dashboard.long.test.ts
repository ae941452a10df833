/** The metrics under promtool, and the dashboard with a real Prometheus that scrapes an idle Gatehouse. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingPrometheus, type Prometheus, promtool, startPrometheus } from '../../support/prometheus.ts';
import { sendRequest } from '../../support/send-request.ts';
import { LONG_TIMEOUT, until } from '../../support/until.ts';

const path = join(import.meta.dirname, '../../..', 'docs', 'grafana', 'gatehouse.json');
const dashboard = JSON.parse(readFileSync(path, 'utf8')) as {
  panels: { title: string; targets?: { expr: string }[] }[];
  templating: { list: { name: string; type: string; definition?: string }[] };
};
const queries = dashboard.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }, n) => [targets.length > 1 ? `${title} (${n + 1})` : title, expr] as const),
);
/** Replaces the variables of Grafana. */
const withVariables = (expr: string, app = '.*') =>
  expr.replaceAll('$__rate_interval', '1m').replaceAll('$instance', '.*').replaceAll('$app', app);

let site: TestSite;
let prometheus: Prometheus | undefined;
beforeAll(async () => {
  site = await startSite({
    apps: (parts) => [sandboxApp(parts, 'platform'), sandboxApp(parts, 'second', { signIn: undefined })],
  });
  if (missingPrometheus) return;
  prometheus = await startPrometheus([site.managementUrl]);
  await untilScraped();
});
afterAll(async () => {
  await prometheus?.close();
  await site.close();
});

const query = async (expr: string) => (await prometheus?.query(expr)) ?? [];
/** Waits, because a scrape may time out on a busy machine, and there are no values until the next one. */
const samplesOf = (expr: string) =>
  vi.waitUntil(async () => {
    const samples = await query(expr);
    return samples.length > 0 && samples;
  }, LONG_TIMEOUT);
/** Resolves after at least two more scrapes, which a rate needs. */
async function untilScraped(): Promise<void> {
  const scrapes = async () => Number((await query('sum_over_time(up{job="gatehouse"}[1h])'))[0]?.value[1] ?? 0);
  const scrapesBefore = await scrapes();
  await until(async () => (await scrapes()) >= scrapesBefore + 3);
}

test('promtool accepts the metrics without remarks', async (context) => {
  skipIfMissing(context, missingPrometheus);
  const { body } = await sendRequest(`${site.managementUrl}/metrics`);
  // promtool ignores metrics without a value, and those of stored facts have none yet.
  const values = [...body.matchAll(/^# TYPE (\w+) gauge$/gm)].map(([, name]) => `# TYPE ${name} gauge\n${name} 1\n`);
  for (const text of [body, values.join('').replace(/^(?=# TYPE (\w+))/gm, '# HELP $1 Text.\n')])
    expect(promtool(['check', 'metrics'], text)).toEqual({ status: 0, text: '' });
});

describe('in an idle Gatehouse', () => {
  test.for(queries)('the panel "%s" shows a number', async ([, expr], context) => {
    skipIfMissing(context, missingPrometheus);
    const values = (await samplesOf(withVariables(expr))).map(({ value: [, value] }) => value);
    expect(values).not.toContain('NaN');
  });

  test.for(dashboard.templating.list.filter(({ type }) => type === 'query'))(
    '$name has values',
    async (variable, context) => {
      skipIfMissing(context, missingPrometheus);
      const [, selector = '', label = ''] = /^label_values\((.+), (\w+)\)$/.exec(variable.definition ?? '') ?? [];
      const values = (await samplesOf(`group by (${label}) (${selector})`)).map(({ metric }) => metric[label]);
      expect(values).not.toContain(undefined);

      if (variable.name === 'app') expect(values).toEqual(expect.arrayContaining(['platform', 'second']));
      else expect(values).toEqual([new URL(site.managementUrl).host]);
    },
  );
});

test('a panel by app shows the selected app', async (context) => {
  skipIfMissing(context, missingPrometheus);
  const panelsByApp = queries.filter(([, expr]) => expr.includes('$app'));
  expect(panelsByApp.length).toBeGreaterThanOrEqual(6);

  await signIn(site);
  await untilScraped();
  const [, signIns = ''] = panelsByApp.find(([title]) => title === 'Sign-ins and consents by outcome') ?? [];
  const sumOf = async (app: string) =>
    (await samplesOf(withVariables(signIns, app))).reduce((sum, { value: [, value] }) => sum + Number(value), 0);
  expect(await sumOf('platform')).toBeGreaterThan(0);
  expect(await sumOf('second')).toBe(0);
});
