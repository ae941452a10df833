/** The helpers of templates for dates, links and digits of cards. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PROBLEMS } from '../../../src/shared/errors.ts';
import type { PageData, PageName } from '../../../src/shared/pages/page-data.ts';
import { createViews, GATEHOUSE_VIEWS, type Views } from '../../../src/shared/pages/views.ts';
import { disconnectText, HEALTHS } from '../../../src/shared/pages/words.ts';
import { anyText } from '../../support/any-text.ts';

let directory: string;
let views: Views;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-views-'));
  writeFileSync(join(directory, 'one.eta'), '<%~ JSON.stringify(it.show[it.name](...it.args) ?? null) %>');
  writeFileSync(join(directory, 'text.eta'), '<p title="<%= it.text %>"><%= it.text %></p>');
  views = createViews({ directories: [directory], clock: Date.now });
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Renders the templates of this test. */
const render = (name: string, data: object, renderer = views) =>
  renderer.render(name as PageName, data as PageData[PageName]);
const show = (name: string, ...args: unknown[]) => JSON.parse(render('one', { name, args }));

test.each([
  ['date', ['2026-01-02T23:04:05Z'], '2 January 2026'],
  ['dateTime', ['2026-01-02T23:04:05Z'], '2 January 2026 at 23:04 UTC'],
  ['clock', ['2026-01-02T23:04:05Z'], '23:04:05 UTC'],
  ['date', ['last week'], 'last week'],
  ['dateTime', ['last week'], 'last week'],
  ['daysAgo', [0], 'today'],
  ['daysAgo', [1], 'yesterday'],
  ['daysAgo', [2], '2 days ago'],
  ['daysAgo', [], 'some time ago'],
  ['number', [1234567], '1,234,567'],
  ['form', [{ a: 'b' }], { values: { a: 'b' }, faults: [], dropped: [] }],
  ['webhookEvent', ['connection.removed'], 'Connection removed'],
  ['webhookEvent', ['unheard.of'], 'unheard.of'],
  ['capitalised', ['signed in'], 'Signed in'],
  ['capitalised', [''], ''],
  ['clip', ['abc', 3], 'abc'],
  ['clip', ['abcd', 3], 'abc…'],
  ['appField', ['clientSecret'], 'Client secret'],
  ['appField', ['unheard-of'], 'unheard-of'],
  ['appFieldAnchor', ['scopes'], 'scopes-title'],
  ['appFieldAnchor', ['unheard-of'], 'unheard-of'],
  ['bin', ['45717360'], '45717360'],
  ['bin', ['457173'], '457173'],
  ['bin', ['45717'], ''],
  ['bin', ['457173601'], ''],
  ['flag', ['DK'], 'flags/dk.svg'],
  ['flag', ['DNK'], ''],
  ['flag', ['x/'], ''],
  ['flag', [], ''],
  ['coordinates', [55.7, 12.6], '55.7° N, 12.6° E'],
  ['coordinates', [-55.7, -12.6], '55.7° S, 12.6° W'],
  ['coordinates', [0, 0], '0° N, 0° E'],
  ['json', [{ a: 1 }], '{\n  "a": 1\n}'],
  ['json', [], ''],
  ['network', ['VISA'], { key: 'visa', name: 'Visa' }],
  ['network', ['American Express'], { key: 'amex', name: 'American Express' }],
  ['network', ['Diners-Club'], { key: 'diners', name: 'Diners Club' }],
  ['network', ['Local Card'], { key: 'other', name: 'Local Card' }],
  ['network', [''], { key: 'other', name: 'Network not known' }],
])('%s of %j: %j', (name, args, output) => {
  expect(show(name, ...args)).toEqual(output);
});

describe('a link', () => {
  test.each([
    ['link', '/connections?x=1', '/connections?x=1'],
    ['link', 'https://a.example/', 'https://a.example/'],
    ['link', 'HTTP://a.example/', 'HTTP://a.example/'],
    ['link', 'mailto:a@b.example', 'mailto:a@b.example'],
    ['link', '//evil.example', '#'],
    ['link', '/\\evil.example', '#'],
    ['link', 'javascript:alert(1)', '#'],
    ['link', 'x https://a.example/', '#'],
    ['link', 'connections', '#'],
    ['bankLink', 'www.bank.example', 'https://www.bank.example'],
    ['bankLink', 'bank.example/en/cards', 'https://bank.example/en/cards'],
    ['bankLink', 'https://bank.example', null],
    ['bankLink', 'bank', null],
    ['bankLink', 'bank.example/?a=b', null],
    ['bankLink', 'bank.example:80', null],
    ['phoneLink', '+45 70 11 (12) 13-14', 'tel:+457011121314'],
    ['phoneLink', '70123', 'tel:70123'],
    ['phoneLink', '7012', null],
    ['phoneLink', '1'.repeat(25), null],
    ['phoneLink', '70123 ext. 4', null],
    ['phoneLink', '70+123', null],
  ])('%s %s: %s', (name, args, output) => {
    expect(show(name, args)).toBe(output);
  });
});

describe('the contact of the operator', () => {
  test.each([
    ['https://a.example/help', 'https://a.example/help'],
    ['http://a.example/help', 'http://a.example/help'],
    ['mailto:a@b.example', 'mailto:a@b.example'],
    ['help@bank.example', 'mailto:help@bank.example'],
    ['help@b.example', 'mailto:help@b.example'],
    ['https://a.example/ or call', null],
    ['see https://a.example/', null],
    ['help@b', null],
    ['help desk@b.example', null],
    ['help@b .example', null],
    ['help@b.exa mple', null],
    ['a@b@c.example', null],
    ['javascript:alert@b.example', null],
    ['the help desk', null],
  ])('%s leads to %s', (contact, url) => {
    const label = `<bdi>${contact}</bdi>`;
    expect(show('contact', contact)).toBe(url === null ? label : `<a href="${url}">${label}</a>`);
  });
});

describe('small pieces of HTML', () => {
  test.each([
    ['time', ['2026-01-02T23:04:05Z'], '<time datetime="2026-01-02T23:04:05Z">2 January 2026 at 23:04 UTC</time>'],
    ['day', ['2026-01-02'], '<time datetime="2026-01-02">2 January 2026</time>'],
    ['time', [null, 'never'], 'never'],
    ['day', [], '–'],
    ['status', ['good', 'In use'], statusOf('good', 'check', 'In use')],
    ['status', ['notice', 'Pending'], statusOf('notice', 'clock', 'Pending')],
    ['status', ['bad', 'Failed'], statusOf('bad', 'warning', 'Failed')],
    ['status', ['idle', 'Expired'], statusOf('idle', 'clock', 'Expired')],
    ['status', ['good', 'Seals', 'lock'], statusOf('good', 'lock', 'Seals')],
    ['healthStatus', [{ health: 'unverified' }], statusOf('notice', 'question', 'Unverified')],
    ['healthStatus', [{ health: 'active', notCheckedSince: null }], statusOf('good', 'check', 'Active')],
    [
      'healthStatus',
      [{ health: 'active', notCheckedSince: '2026-03-15T17:02:11Z' }],
      statusOf('idle', 'question', 'Not checked since 15 Mar 2026, 17:02 UTC'),
    ],
  ])('%s of %j', (name, args, output) => {
    expect(show(name, ...args)).toBe(output);
  });

  test('R88 escape their values', () => {
    const hostile = `"><b>'`;
    const text = '&quot;&gt;&lt;b&gt;&#39;';
    expect(show('time', hostile)).toBe(`<time datetime="${text}">${text}</time>`);
    expect(show('time', null, hostile)).toBe(text);
    expect(show('status', 'good', hostile)).toBe(statusOf('good', 'check', text));
    expect(show('contact', `https://a.example/${hostile}`)).toBe(
      `<a href="https://a.example/${text}"><bdi>https://a.example/${text}</bdi></a>`,
    );
  });
});

function statusOf(tone: string, icon: string, text: string): string {
  return `<span class="status status-${tone}"><span class="icon icon-${icon}" aria-hidden="true"></span>${text}</span>`;
}

describe('R86 the digits of a card', () => {
  test.each([
    ['45717360', undefined, ['4571', '7360', '••••', '••••']],
    ['457173', 16, ['4571', '73••', '••••', '••••']],
    ['371234', 15, ['3712', '34••••', '•••••']],
    ['361234', 14, ['3612', '34••••', '••••']],
    ['501234', 12, ['5012', '34••', '••••']],
    ['501234', 19, ['5012', '34••', '••••', '••••', '•••']],
    ['501234', 11, ['5012', '34••', '••••', '••••']],
    ['501234', 20, ['5012', '34••', '••••', '••••']],
    ['501234', 15.5, ['5012', '34••', '••••', '••••']],
  ])('of %s, with a length of %s: %j', (bin, length, groups) => {
    expect(show('cardDigits', bin, ...(length === undefined ? [] : [length]))).toEqual(groups);
  });

  test('are never more than a BIN', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^\d{0,24}$/), fc.integer({ min: -5, max: 40 }), (digits, length) => {
        const shown = show('cardDigits', digits, length).join('').replaceAll('•', '');
        expect(shown).toBe(digits.length >= 6 && digits.length <= 8 ? digits : '');
      }),
    );
  });
});

test('R88 no text can end its element or its attribute', () => {
  fc.assert(
    fc.property(anyText(), (text) => {
      const page = render('text', { text });
      expect(page).toMatch(/^<p title="[^"<>]*">[^<>]*<\/p>$/);
      expect(page).not.toMatch(/[\u202a-\u202e\u2066-\u2069]/);
    }),
  );
});

test('R88 escapes markup characters and removes control characters', () => {
  const ownViews = createViews({ directories: [directory], clock: Date.now });
  const renderText = (text: unknown) => render('text', { text }, ownViews).replace(/^<p title="(.*)">\1<\/p>$/s, '$1');
  expect(renderText(`<a href="x">Tom & 'Ada'</a>`)).toBe(
    '&lt;a href=&quot;x&quot;&gt;Tom &amp; &#39;Ada&#39;&lt;/a&gt;',
  );
  expect(renderText('a\u0000\u0008b\u000bc\u001fd\u007fe\u009ff\u202ag\u202eh\u2066i\u2069j')).toBe('abcdefghij');
  expect(renderText('a\tb\nc\rd\u00a0e\u2029f\u202fg\u2065h\u206ai')).toBe(
    'a\tb\nc\rd\u00a0e\u2029f\u202fg\u2065h\u206ai',
  );
  expect(renderText(7)).toBe('7');
});

test('pages are rendered by the template with their name', () => {
  const page = { title: 'T', basePath: '/gate', operatorName: 'Us' };
  const gatehouseViews = createViews({ directories: [GATEHOUSE_VIEWS], clock: Date.now });
  const failure = { page, reference: 'ab12cd34', time: '2026-03-15T17:02:11Z' };
  expect(gatehouseViews.render('errors/error', { ...failure, code: 'not_found' })).toContain(
    'This page does not exist',
  );
  expect(gatehouseViews.render('errors/problem', { page, code: 'not_found' })).toContain('<code>not_found</code>');
  expect(gatehouseViews.render('home/signed-out', { page, signInApps: [] })).toMatch(/^<!doctype html>/);
});

describe('texts for codes', () => {
  const NETWORKS = {
    visa: 'Visa',
    mastercard: 'Mastercard',
    maestro: 'Maestro',
    amex: 'American Express',
    diners: 'Diners Club',
    discover: 'Discover',
    jcb: 'JCB',
    unionpay: 'UnionPay',
    mir: 'Mir',
    elo: 'Elo',
    hiper: 'Hiper',
    hipercard: 'Hipercard',
    verve: 'Verve',
    dankort: 'Dankort',
  };
  test.each(Object.entries(NETWORKS))('a network: %s is %s', (key, name) => {
    for (const spelling of [key, name, name.toUpperCase()]) expect(show('network', spelling)).toEqual({ key, name });
  });

  test('a field of an app’s form has a label and an anchor', () => {
    const anchors = {
      issuer: 'issuer',
      clientId: 'clientId',
      clientSecret: 'clientSecret',
      callbackUrls: 'callback-title',
      scopes: 'scopes-title',
      signIn: 'use-title',
      apiBaseUrlFrom: 'apiBaseUrlFrom-hosts',
      par: 'par',
      dpop: 'dpop',
      account: 'account-field',
      tokenEndpoint: 'endpoints-token',
      tokenParameters: 'tokenParameters',
      tokenPath: 'tokenPath',
    };
    const fields = Object.keys(anchors);
    const labels = fields.map((field) => show('appField', field));
    for (const label of labels) expect(label).toMatch(/^\p{Lu}[\p{L}’ ]{5,}$/u);
    expect(new Set(labels).size).toBe(fields.length);
    expect(fields.map((field) => show('appFieldAnchor', field))).toEqual(Object.values(anchors));
  });

  test('sources of BIN data, and outcomes of disconnecting with their tones', () => {
    const sources = ['dataset', 'service', 'cache', 'rules'].map((source) => show('source', source));
    for (const source of sources) expect(source).toMatch(/^\p{Lu}.{10,}$/u);
    expect(new Set(sources).size).toBe(4);

    const outcomes = (['revoked', 'unsupported', 'pending', 'unconfirmed'] as const).map(disconnectText);
    expect(outcomes.map(({ tone }) => tone)).toEqual(['success', 'info', 'warning', 'warning']);

    for (const { text } of outcomes) expect(text).toMatch(/^Disconnected.{20,}\.$/);
  });

  test.each(Object.keys(PROBLEMS))('the problem %s has a meaning and an action', (code) => {
    const { title, meaning, advice, helper, action } = show('problem', code, 30);
    expect(title).toMatch(/^\p{Lu}.{6,}[^.]$/u);

    for (const sentence of [meaning, advice]) expect(sentence).toMatch(/^\p{Lu}.{12,}[.?]$/u);
    expect(`${title} ${meaning} ${advice}`).not.toContain('{');
    expect(show('helper', helper)).toMatch(/^(You can solve|An administrator|The operator of)/);
    expect(action.label).toMatch(/^(Go to|Try again|See your|Sign in|Look up)/);
    expect(action.path).toMatch(/^\/(sign-in|connections)?$/);
  });

  test('problems by who can help, and by the path of their button', () => {
    const texts = Object.keys(PROBLEMS).map((code) => [code, show('problem', code)]);
    const codes = (matches: (text: { helper: string; action: { path: string } }) => boolean) =>
      texts.filter(([, text]) => matches(text)).map(([code]) => code);
    const codesOfHelper = (helper: string) => codes((text) => text.helper === helper);
    expect(codesOfHelper('administrator')).toEqual([
      'relay_token_invalid',
      'insufficient_scope',
      'not_allowed',
      'bin_quota_exhausted',
      'app_misconfigured',
      'storage_unavailable',
      'overloaded',
      'starting',
      'internal',
    ]);
    expect(codesOfHelper('provider')).toEqual(['provider_error', 'provider_unavailable']);
    expect(codesOfHelper('platform')).toEqual(['platform_rate_limited', 'platform_error', 'platform_timeout']);
    expect(codesOfHelper('bin_service')).toEqual(['bin_service_unavailable']);

    const codesLeadingTo = (path: string) => codes((text) => text.action.path === path);
    expect(codesLeadingTo('/sign-in')).toEqual(['sign_in_required', 'step_up_required']);
    expect(codesLeadingTo('/connections')).toEqual(['not_connected', 'reconnect_needed', 'scopes_missing']);
  });

  test('a wait is shown in a suitable unit', () => {
    const waitShown = (seconds?: number) =>
      /^Try again in (.*)\.$/.exec(
        show('problem', 'platform_timeout', ...(seconds === undefined ? [] : [seconds])).advice,
      )?.[1];
    expect(waitShown()).toBe('a few minutes');
    for (const [seconds, text] of [
      [0, '1 second'],
      [1, '1 second'],
      [1.2, '2 seconds'],
      [89, '89 seconds'],
      [90, '2 minutes'],
      [121, '3 minutes'],
      [5_399, '90 minutes'],
      [5_400, '2 hours'],
      [129_599, '36 hours'],
      [129_600, '2 days'],
      [172_801, '3 days'],
    ] as const) {
      expect(waitShown(seconds), String(seconds)).toBe(`about ${text}`);
    }
  });

  test.each([
    ['active', 'Active', 'good', 'check'],
    ['expiring', 'Expiring', 'notice', 'clock'],
    ['unverified', 'Unverified', 'notice', 'question'],
    ['reconnect_needed', 'Reconnect needed', 'bad', 'warning'],
    ['not_connected', 'Not connected', 'idle', 'unlinked'],
  ])('the health %s is %s, with its colour and icon', (health, label, tone, icon) => {
    const text = show('health', health);
    expect(text).toEqual({ label, tone, icon, meaning: expect.stringMatching(/^\p{Lu}.{15,}\.$/u) });
  });

  test('healths are listed best first', () => {
    expect(HEALTHS.map((health) => show('health', health).tone)).toEqual(['good', 'notice', 'notice', 'bad']);
  });

  test('known scopes have a text, and others have none', () => {
    const scopes = ['openid', 'profile', 'email', 'offline_access', 'platform_read_only', 'platform_full_access'];
    const scopeTexts = scopes.map((scope) => show('scope', scope));
    for (const text of scopeTexts) expect(text).toMatch(/^(Know|See|Stay|Read) .{10,}[^.]$/);
    expect(new Set(scopeTexts).size).toBe(scopes.length);
    expect(show('scope', 'odd:scope')).toBeNull();
  });
});
