/** Pages keep their structure with any text in them, and are written plainly. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { sanitizeThreadHtml, withoutGaps } from '../../../src/gatehouse/home/thread-html.ts';
import { type BinRecord, factRows } from '../../../src/shared/bin/record.ts';
import { PROBLEMS, type ProblemCode } from '../../../src/shared/errors.ts';
import type {
  BinResult,
  ConnectionHealth,
  ConnectionView,
  PageData,
  PageName,
  SanitisedHtml,
  SignedInFrame,
  ThreadPanel,
} from '../../../src/shared/pages/page-data.ts';
import { problemText } from '../../../src/shared/pages/problem-texts.ts';
import { createViews, GATEHOUSE_VIEWS, SHARED_VIEWS } from '../../../src/shared/pages/views.ts';
import { disconnectText } from '../../../src/shared/pages/words.ts';

const views = createViews({ directories: [GATEHOUSE_VIEWS], clock: Date.now });
type UserPage = Exclude<PageName, `admin/${string}` | `docs/${string}` | 'account' | 'errors/refused'>;
const codes = Object.keys(PROBLEMS) as ProblemCode[];
const healths: readonly (ConnectionHealth | 'not_connected')[] = [
  'active',
  'expiring',
  'unverified',
  'reconnect_needed',
  'not_connected',
];

const HOSTILE = {
  script: '</title></textarea><script>alert(1)</script>',
  'double quote': '" autofocus onfocus="alert(1)" x="',
  'single quote': "' onmouseover='alert(1)' x='",
  image: '<img src=x onerror=alert(1)>',
  comment: '<!-- --!> <![CDATA[ ]]>',
  template: '<%= it.page.csrfToken %> `',
  'script address': 'javascript:alert(1)',
  'data address': 'data:text/html,<script>alert(1)</script>',
  'network address': '//evil.example/path',
  'bidirectional marks': 'safe\u202egnihsihp\u2066\u200f \u0000\u001b[31m',
  'half a character': 'a\ud800b',
  long: 'W'.repeat(10_000),
  'long words': '<b> & '.repeat(2_000),
};

describe('R88 hostile text in every field of every page', () => {
  for (const name of Object.keys(everyPage('x')) as UserPage[]) {
    test.each(Object.entries(HOSTILE))(`${name} keeps its structure: %s`, (_kind, text) => {
      const plain = renderAll(name, 'Plain words').map(structure);
      expect(renderAll(name, text).map(structure)).toEqual(plain);
    });
  }

  test.each(['home/signed-out', 'sign-in/choose', 'errors/error'] as const)(
    '%s: an address cannot leave its attribute',
    (name) => {
      const plain = renderAll(name, 'https://app.example/plain').map(structure);
      expect(renderAll(name, 'https://app.example/"onfocus="alert(1)"><b>').map(structure)).toEqual(plain);
    },
  );

  test('removes marks that change the writing direction', () => {
    const [html = ''] = renderAll('connections/one', 'a\u202eb\u2067c\u0007d');
    expect(html).toContain('abcd');
    expect(html).not.toMatch(/[\u202a-\u202e\u2066-\u2069]/);
  });
});

describe('R68 what the security policy demands of pages', () => {
  const documents = (Object.keys(everyPage('x')) as UserPage[]).flatMap((name) =>
    renderAll(name, 'Plain words').map((html) => ({ name, html, tags: elements(html) })),
  );

  test.each(documents)('$name has no inline script, style or handler', ({ html, tags }) => {
    expect(html).toMatch(/^<!doctype html>\n<html lang="en">/);
    for (const { tag, attributes } of tags) {
      expect(tag).not.toBe('style');
      // The names of a script that is no module would clash with those of the other scripts of its page.
      if (tag === 'script')
        expect(Object.fromEntries(attributes)).toEqual({
          type: 'module',
          src: expect.stringMatching(/^\/base\/assets\/[a-p]{16}\/[a-z-]+\.js$/),
        });
      for (const attribute of attributes.keys()) expect(attribute).not.toMatch(/^(style|on.*)$/);
    }
    expect(html).not.toMatch(/<script[^>]*>[^<]/);
  });

  test.each(documents)(
    '$name: every form has its token, and all local URLs are below the base path',
    ({ html, tags }) => {
      const forms = html.match(/<form\b[\s\S]*?<\/form>/g) ?? [];
      expect(forms).toHaveLength(tags.filter(({ tag }) => tag === 'form').length);
      for (const form of forms) {
        expect(form).toMatch(/^<form[^>]* method="post" action="\/base\/[^"]+"/);
        expect(form).toContain('<input type="hidden" name="_csrf" value="token-of-this-session">');
      }
      for (const { attributes } of tags) {
        for (const address of [attributes.get('href'), attributes.get('src')]) {
          if (address !== undefined) expect(address).toMatch(/^(\/base\/|#|mailto:|tel:|https:)/);
        }
      }
    },
  );

  test.each(documents)('$name has one main heading, landmarks, a skip link and labels', ({ html, tags }) => {
    for (const tag of ['h1', 'header', 'main', 'footer']) {
      expect(tags.filter((element) => element.tag === tag)).toHaveLength(1);
    }
    expect(html).toContain('<a class="skip-link" href="#main">');

    const ids = tags.flatMap(({ attributes }) => attributes.get('id') ?? []);
    expect(new Set(ids).size).toBe(ids.length);

    for (const { attributes } of tags) {
      for (const id of `${attributes.get('aria-labelledby') ?? ''} ${attributes.get('aria-describedby') ?? ''}`
        .split(' ')
        .filter((word) => word !== '')) {
        expect(ids).toContain(id);
      }
    }
    for (const { attributes } of tags.filter((element) => element.tag === 'input')) {
      if (attributes.get('type') !== 'hidden') expect(html).toContain(`<label for="${attributes.get('id')}">`);
    }
  });
});

test('every image in the style sheet exists', () => {
  const css = readFileSync(`${SHARED_VIEWS}/assets/gatehouse.css`, 'utf8');
  const paths = [...css.matchAll(/url\("([^"]+\.svg)"\)/g)].map(([, path]) => path ?? '');
  expect(paths.length).toBeGreaterThan(10);
  for (const path of paths) expect(readFileSync(`${SHARED_VIEWS}/assets/${path}`, 'utf8')).toMatch(/^<svg /);
});

describe('words', () => {
  const JARGON =
    /\b(tokens?|oauth|openid|csrf|https?|scopes?|redirect|refresh|upstream|storage|session|json|content-length|grant|client|endpoint|status \d+)\b/i;

  test.each(codes)('%s is explained without jargon, with the responsible party and one action', (code) => {
    const html = views.render('errors/error', {
      page: frame('x'),
      code,
      reference: 'ab12cd34',
      time: '2026-03-15T17:02:11Z',
    });
    expect(visibleText(html)).not.toMatch(JARGON);
    expect(visibleText(html)).toContain('15 March 2026 at 17:02 UTC');
    expect(visibleText(html).includes('Who can help')).toBe(problemText(code).helper !== 'you');
    expect(html).toContain('<code class="reference" data-copy-source>ab12cd34</code>');
    expect(
      elements(html).filter(({ attributes }) => attributes.get('class')?.split(' ').includes('button')),
    ).toHaveLength(1);
    expect(html).not.toContain('{wait}');

    const page = visibleText(views.render('errors/problem', { page: frame('x'), code }));
    expect(page).toContain(`Programs know this problem as ${code}.`);
    expect(page.replace(code, '')).not.toMatch(JARGON);
  });

  test('a known wait is written in words', () => {
    expect(problemText('platform_timeout').advice).toBe('Try again in a few minutes.');
    const waits = [0, 1, 30, 120, 5400, 7200, 200_000].map((s) => problemText('platform_timeout', s).advice);
    expect(waits.map((sentence) => sentence.replace('Try again in about ', ''))).toEqual([
      '1 second.',
      '1 second.',
      '30 seconds.',
      '2 minutes.',
      '2 hours.',
      '2 hours.',
      '3 days.',
    ]);
  });

  test.each(healths)('health %s is written in words, never as a code', (health) => {
    const connection: ConnectionView = { id: 'app', name: 'App', health, scopes: ['platform_read_only', 'odd:scope'] };
    const page = signedIn('x');
    for (const html of [
      views.render('connections/one', { page, connection }),
      views.render('connections/list', { page, connections: [connection] }),
      views.render('home/signed-in', { page, connections: [connection], threads: [], calls: [], bin: {} }),
    ]) {
      expect(visibleText(html)).not.toMatch(/unverified|reconnect_needed|not_connected/);
      expect(html).toMatch(
        /class="status status-[a-z]+"><span class="icon icon-[a-z]+" aria-hidden="true"><\/span>\w+/,
      );
    }
    const pageHtml = views.render('connections/one', { page, connection });
    expect(visibleText(pageHtml)).toContain('Read what you can read on the platform');
    expect(visibleText(pageHtml)).not.toContain('platform_read_only');
    expect(visibleText(pageHtml)).toContain('odd:scope');
    expect(pageHtml.includes('/connections/app/disconnect')).toBe(health !== 'not_connected');
  });

  test('connections that need attention come first, the worst at the top', () => {
    const connections = (['active', 'expiring', 'reconnect_needed'] as const).map((health) =>
      connectionOf(health, health),
    );
    const html = views.render('home/signed-in', { page: signedIn('x'), connections, threads: [], calls: [], bin: {} });
    const rows = html.slice(html.indexOf('class="connection-rows"'), html.indexOf('Current thread'));
    const names = [...rows.matchAll(/<a href="[^"]*"><bdi>(\w+)</g)].map(([, name]) => name);
    expect(names).toEqual(['reconnect_needed', 'expiring', 'active']);
  });

  test('a disconnect shows the provider’s confirmation', () => {
    const noticeOf = (disconnected: 'revoked' | 'unsupported' | 'unconfirmed') =>
      visibleText(
        views.render('connections/one', {
          page: signedIn('x'),
          connection: connectionOf('a', 'not_connected'),
          notice: disconnectText(disconnected),
        }),
      );
    expect(noticeOf('revoked')).toContain('has confirmed that our access is withdrawn');
    expect(noticeOf('unsupported')).toContain('has no way to withdraw access');
    expect(noticeOf('unconfirmed')).toContain('did not confirm that it is withdrawn');
  });

  test('sessions are listed without jargon; only those of other browsers can be ended here', () => {
    const times = { startedAt: '2026-03-15T17:02:11Z', lastSeenAt: '2026-03-15T18:30:00Z' };
    const html = views.render('sign-in/sessions', {
      page: signedIn('x'),
      sessions: [
        { id: 'AAAA', browser: 'Firefox on Windows', ...times, current: true },
        { id: 'BBBB', ...times, current: false },
      ],
    });
    expect(visibleText(html)).not.toMatch(JARGON);
    expect(visibleText(html)).toMatch(
      /Firefox on Windows This browser Signed in 15 March 2026 at 17:02 UTC Last seen 15 March 2026 at 18:30 UTC Sign out here/,
    );
    expect(visibleText(html)).toMatch(/Unknown browser Signed in .* UTC Sign out there /);
    expect(html).toContain('action="/base/sessions/BBBB/end"');
    expect(html).not.toContain('/base/sessions/AAAA/end');
    expect(html).toContain('action="/base/sign-out/everywhere"');
  });

  test('no sign-out button, and no form at all, without a token', () => {
    const html = views.render('errors/error', {
      page: { ...frame('x'), user: { id: 'u1', name: 'Ada' } },
      code: 'storage_unavailable',
      reference: 'ab12cd34',
      time: '2026-03-15T17:02:11Z',
    });
    expect(html).not.toContain('<form');
  });
});

describe('the drawn card', () => {
  const draw = (bin: string, length?: number) =>
    views.render('bin/page', {
      page: signedIn('x'),
      bin: { result: resultOf(bin, length === undefined ? {} : { number: { length } }) },
    });
  const digits = (html: string) =>
    [...(/class="card-digits">(.*)<\/div>/.exec(html)?.[1] ?? '').matchAll(/<span>([^<]+)<\/span>/g)].map(([, g]) => g);

  test.each([
    ['45717360', 16, ['4571', '7360', '••••', '••••']],
    ['457173', undefined, ['4571', '73••', '••••', '••••']],
    ['378282', 15, ['3782', '82••••', '•••••']],
    ['300000', 14, ['3000', '00••••', '••••']],
    ['6304000', 19, ['6304', '000•', '••••', '••••', '•••']],
    ['45717360', -1, ['4571', '7360', '••••', '••••']],
  ])('%s of %s digits', (bin, length, groups) => {
    expect(digits(draw(bin, length))).toEqual(groups);
  });

  test('R85 more digits than a BIN has are never printed', () => {
    expect(draw('4571736012345678')).not.toMatch(/4571/);
  });

  test('links of a bank lead only to web addresses and telephones', () => {
    const bank = (url: string, phone: string) => {
      const html = views.render('bin/page', {
        page: signedIn('x'),
        bin: { result: resultOf('457173', { bank: { url, phone } }) },
      });
      return elements(html.slice(html.indexOf('<section class="bin-result"'), html.indexOf('</section>') + 10)).flatMap(
        ({ attributes }) => attributes.get('href') ?? [],
      );
    };
    expect(bank('www.jyskebank.dk', '+4589893300')).toEqual(['https://www.jyskebank.dk', 'tel:+4589893300']);
    expect(bank('javascript:alert(1)', 'alert(1)')).toEqual([]);
    expect(bank('user:pass@evil.example', '')).toEqual([]);
  });
});

describe('thread HTML', () => {
  const rel = 'rel="noopener noreferrer nofollow"';
  test.each([
    ['headings are lowered', '<h1>a</h1><h2>b</h2><h3>c</h3><h6>d</h6>', '<h4>a</h4><h5>b</h5><h6>c</h6><h6>d</h6>'],
    ['text and lists stay', '<p>a <b>b</b></p><ul><li>c</li></ul>', '<p>a <b>b</b></p><ul><li>c</li></ul>'],
    ['tables stay', '<table><tr><td colspan="9" width=9>a</td></tr></table>', '<table><tr><td>a</td></tr></table>'],
    ['code stays', '<pre><code>a &lt; b</code></pre>', '<pre><code>a &lt; b</code></pre>'],
    ['scripts go', 'a<script>alert(1)</script>b', 'ab'],
    ['styles go', 'a<style>p{}</style><p style="color:red" class="x" id="main">b</p>', 'a<p>b</p>'],
    ['handlers go', '<p onclick="alert(1)">a</p>', '<p>a</p>'],
    [
      'pictures become words',
      'a<img src="https://x.example/p.png" alt="<b>cat</b>" onerror=x>b',
      'a<span>[Picture: &lt;b&gt;cat&lt;/b&gt;]</span>b',
    ],
    ['pictures without words', '<img src=x>', '<span>[Picture]</span>'],
    [
      'web links stay',
      '<a href="https://a.example/?b=1&amp;c" target=_blank>a</a>',
      `<a href="https://a.example/?b=1&amp;c" ${rel}>a</a>`,
    ],
    ['mail links stay', '<a href="mailto:a@b.example">a</a>', `<a href="mailto:a@b.example" ${rel}>a</a>`],
    ['script links go', '<a href="javascript:alert(1)">a</a>', `<a ${rel}>a</a>`],
    ['hidden script links go', '<a href="java\tscript&colon;alert(1)">a</a>', `<a ${rel}>a</a>`],
    ['data links go', '<a href="data:text/html,x">a</a>', `<a ${rel}>a</a>`],
    ['invalid URLs go', '<a href="https://a.example/<!-- b -->">a</a>', `<a ${rel}>a</a>`],
    ['own addresses go', '<a href="/sign-out">a</a><a href="//evil.example">b</a>', `<a ${rel}>a</a><a ${rel}>b</a>`],
    ['forms go', '<form action="/x"><input name="_csrf"><button>a</button></form>', 'a'],
    ['frames go', '<iframe src="https://x.example">a</iframe>b', 'b'],
    ['drawings go', '<svg><script>alert(1)</script><a href="javascript:x">a</a></svg>b', 'b'],
    [
      'bases and metas go',
      '<base href="//x"><meta http-equiv="refresh" content="0;url=//x"><link rel=stylesheet href=x>a',
      'a',
    ],
    ['comments go', 'a<!-- <script>x</script> --><![CDATA[b]]>c', 'ac'],
    ['open elements are closed', '<p><b>a', '<p><b>a</b></p>'],
    ['closing tags without an opening tag are dropped', 'a</div></main></body>b', 'ab'],
  ])('%s', (_name, dirty, clean) => {
    expect(sanitizeThreadHtml(dirty)).toBe(clean);
  });

  test('deep nesting is flattened', () => {
    const html = sanitizeThreadHtml(`${'<blockquote>'.repeat(256)}a`) ?? '';
    expect(html.match(/<blockquote>/g)).toHaveLength(40);
    expect(html).toContain('>a<');
  });

  test.each([
    ['<h2>a</h2><p>b</p>', '<h4>a</h4><p>b</p>'],
    ['<h3>a</h3><h1>b</h1><h3>c</h3>', '<h4>a</h4><h4>b</h4><h5>c</h5>'],
    ['<h1>a</h1><h2>b</h2><h3>c</h3><h2>d</h2>', '<h4>a</h4><h5>b</h5><h6>c</h6><h5>d</h5>'],
    ['<h2>a &lt;h6&gt;</h2><a href="https://x.example/<h6>">b</a>', '<h4>a &lt;h6&gt;</h4>'],
  ])('the outline has no gaps: %s', (html, expected) => {
    expect(withoutGaps(sanitizeThreadHtml(html) as SanitisedHtml)).toContain(expected);
  });

  test('rejects deeper nesting', () => {
    expect(sanitizeThreadHtml('<blockquote>'.repeat(257))).toBeUndefined();
  });

  test('is printed unescaped, and stays inside its element', () => {
    const clean = sanitizeThreadHtml('</div></main><h1>Plan</h1><p>a');
    if (clean === undefined) throw new Error('It nests too deep.');
    const body = { kind: 'html', html: clean, isLong: false, isCut: false } as const;
    const thread: ThreadPanel = { kind: 'thread', appName: 'App', title: 'T', body };
    const html = views.render('home/signed-in', {
      page: signedIn('x'),
      connections: [],
      threads: [thread],
      calls: [],
      bin: {},
    });
    expect(html).toContain('dir="auto"><h4>Plan</h4><p>a</p></div>');

    structure(html);
  });
});

function renderAll<K extends UserPage>(name: K, text: string): string[] {
  return everyPage(text)[name].map((data) => views.render(name, data));
}

function frame(text: string) {
  return { title: text, basePath: '/base', operatorName: text, supportContact: text };
}

function signedIn(text: string): SignedInFrame {
  return {
    ...frame(text),
    user: { id: 'u1', name: text, email: text },
    csrfToken: 'token-of-this-session',
    formId: 'form',
  };
}

function resultOf(bin: string, record: BinRecord): BinResult {
  return { bin, record, rows: factRows(record), source: 'cache', digitsMatched: 6 };
}

function connectionOf(id: string, health: ConnectionView['health']): ConnectionView {
  return { id, name: id, health, scopes: [] };
}

/** Each page in several states, with the text in every text field. */
function everyPage(text: string): { [K in UserPage]: PageData[K][] } {
  const page = signedIn(text);
  const signedOut = frame(text);
  const notice = { tone: 'warning', text } as const;
  const signInApps = [1, 2].map(() => ({ id: text, name: text, url: text }));
  const connections = healths.map((health) => ({
    id: text,
    name: text,
    account: text,
    health,
    cause: text,
    scopes: [text, 'openid'],
    connectedAt: text,
    checkedAt: text,
    notCheckedSince: text,
    lastUsedAt: text,
    more: { scopes: [text, 'openid'], request: [text] },
  }));
  const record = {
    number: { length: 16, luhn: true },
    scheme: text,
    type: text,
    brand: text,
    prepaid: true,
    country: { numeric: text, alpha2: text, name: text, emoji: text, currency: text, latitude: -1, longitude: 2 },
    bank: { name: text, url: text, phone: text, city: text },
  };
  const result = { ...resultOf('45717360', record), asOf: text };
  const error = { code: 'invalid_bin', reference: text, retryAfterSeconds: 60 } as const;
  const thread = { kind: 'thread', appName: text, title: text, author: text, updatedAt: text } as const;
  const threads: ThreadPanel[] = [
    { ...thread, body: { kind: 'text', text, isLong: true, isCut: true } },
    { ...thread, body: { kind: 'json', text, isLong: true, isCut: true } },
    { ...thread, body: { kind: 'empty' } },
    { kind: 'not_connected', appId: text, appName: text },
    ...(['platform_timeout', 'reconnect_needed', 'not_connected'] as const).map((code) => ({
      kind: 'problem' as const,
      appId: text,
      appName: text,
      code,
      reference: text,
    })),
  ];
  const calls = [
    { appId: text, appName: text, calls: [true, false].map((isLink) => ({ method: text, path: text, isLink })) },
  ];
  const failure = { code: 'internal', reference: text, time: text } as const;
  return {
    'home/signed-out': [
      { page: signedOut, signInApps, notice },
      { page: signedOut, signInApps: [] },
    ],
    'connections/link': connections.map((connection) => ({
      page,
      connection,
      scopes: [text],
      service: text,
      expiresAt: new Date(0).toISOString(),
      link: text,
      hints: { prompt: text },
    })),
    'home/signed-in': [
      { page, connections, threads, calls, bin: { result }, notice },
      { page, connections: [], threads: [], calls: [], bin: { error } },
    ],
    'sign-in/choose': [
      { page: signedOut, signInApps },
      { page: signedOut, signInApps: [] },
    ],
    'connections/list': [
      { page, connections, notice },
      { page, connections: [] },
    ],
    'connections/one': connections.flatMap((connection) => [
      { page, connection, returnTo: text, disconnected: 'revoked' as const, notice },
      { page, connection: { ...connection, unusable: text } },
    ]),
    'sign-in/erase': [{ page }],
    'sign-in/erased': [{ page: signedOut, connections: [{ name: text, words: text }] }],
    'sign-in/sessions': [
      {
        page,
        sessions: [true, false].map((current) => ({
          id: text,
          browser: text,
          startedAt: text,
          lastSeenAt: text,
          current,
        })),
        notice,
      },
      { page, sessions: [{ id: text, startedAt: text, lastSeenAt: text, current: false }] },
    ],
    'bin/page': [
      { page, bin: {} },
      { page, bin: { result } },
      { page, bin: { error } },
    ],
    'errors/error': [
      { page, ...failure },
      {
        page: signedOut,
        ...failure,
        title: text,
        cause: text,
        helper: 'you',
        advice: text,
        action: { label: text, url: text },
      },
    ],
    'errors/problem': codes.map((code) => ({ page: signedOut, code })),
  };
}

interface Element {
  tag: string;
  attributes: Map<string, string>;
}

const VOID = new Set(['meta', 'link', 'input', 'br', 'hr', 'img']);
const TOKEN =
  /<!doctype html>|<\/([a-z][a-z0-9]*)>|<([a-z][a-z0-9]*)((?:\s+[a-z][a-z0-9_-]*(?:="[^"<>]*")?)*)\s*>|[<>]/g;

/** The elements of a page; fails on a stray `<` or `>`, and on tags that do not close in order. */
function elements(html: string): Element[] {
  const list: Element[] = [];
  const open: string[] = [];
  for (const [token, closing, opening, attributeText = ''] of html.matchAll(TOKEN)) {
    if (token === '<' || token === '>') throw new Error('a stray angle bracket');
    if (closing !== undefined) expect(open.pop()).toBe(closing);
    if (opening === undefined) continue;
    if (!VOID.has(opening)) open.push(opening);
    const attributes = new Map<string, string>();
    for (const [, name = '', value = ''] of attributeText.matchAll(/([a-z][a-z0-9_-]*)(?:="([^"]*)")?/g)) {
      attributes.set(name, value);
    }
    list.push({ tag: opening, attributes });
  }
  expect(open).toEqual([]);
  return list;
}

function structure(html: string): string[] {
  return elements(html).map(({ tag, attributes }) => [tag, ...attributes.keys()].join(' '));
}

function visibleText(html: string): string {
  return html
    .slice(html.indexOf('<main'))
    .replace(/<[^>]*>/g, ' ')
    .replaceAll('&#39;', "'")
    .replace(/\s+/g, ' ')
    .replace(/ \./g, '.');
}
