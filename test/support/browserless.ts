/** A user agent without a browser, with cookies, redirects and plain HTML forms over real HTTP. */
import { type CookieJar, createCookieJar } from './cookie-jar.ts';
import { type Form, parseForms } from './html-forms.ts';

export interface Page {
  /** The final URL after redirects. */
  url: string;
  status: number;
  headers: Headers;
  body: string;
  forms: Form[];
  /** Every requested URL, ending with that of this page. */
  visited: string[];
}

export interface RequestOptions {
  method?: string;
  headers?: Record<string, string>;
  body?: string | URLSearchParams;
  /** Default true. */
  follow?: boolean;
}

export interface UserAgent {
  readonly cookies: CookieJar;
  /** A top-level navigation. Stops before a URL that `stopAt` matches, and returns a page with status 0 there. */
  get(url: string, options?: RequestOptions): Promise<Page>;
  request(url: string, options?: RequestOptions): Promise<Page>;
  /** Follows the first link with this text. Fails if there is none. */
  follow(page: Page, text: string): Promise<Page>;
  /**
   * Fills and submits the first form that has all of `fields` and, if given, a button with this text. Fails with a list
   * of the forms if none fits.
   */
  submit(page: Page, fields?: Record<string, string>, choice?: { button?: string }): Promise<Page>;
}

const MAX_REDIRECTS = 20;

export function createUserAgent(parts: { stopAt?: (url: string) => boolean } = {}): UserAgent {
  const cookies = createCookieJar();
  const stopAt = parts.stopAt ?? (() => false);

  async function request(url: string, options: RequestOptions = {}): Promise<Page> {
    const visited: string[] = [];
    let headers = options.headers ?? {};
    let next = { url, method: options.method ?? 'GET', body: options.body };
    for (;;) {
      visited.push(next.url);
      if (stopAt(next.url)) return { url: next.url, status: 0, headers: new Headers(), body: '', forms: [], visited };
      const response = await sendOne(next, headers);
      const location = response.headers.get('location');
      const isRedirect = response.status >= 300 && response.status < 400 && location !== null;
      if (!isRedirect || options.follow === false) return toPage(next.url, response, visited);
      if (visited.length > MAX_REDIRECTS) throw new Error(`More than ${MAX_REDIRECTS} redirects: ${visited.join(' ')}`);
      const keepsMethod = response.status === 307 || response.status === 308;
      const target = new URL(location, next.url).href;
      // A browser sends Origin with a form, but not with the redirects after it.
      if (!keepsMethod) headers = Object.fromEntries(Object.entries(headers).filter(([name]) => name !== 'origin'));
      next = keepsMethod ? { ...next, url: target } : { url: target, method: 'GET', body: undefined };
    }
  }

  async function sendOne(
    target: { url: string; method: string; body: RequestOptions['body'] },
    extra: Record<string, string>,
  ) {
    const cookie = cookies.header(target.url);
    const response = await fetch(target.url, {
      method: target.method,
      redirect: 'manual',
      headers: { accept: 'text/html,*/*;q=0.8', ...(cookie === '' ? {} : { cookie }), ...extra },
      ...(target.body === undefined ? {} : { body: target.body }),
    });
    cookies.store(target.url, response.headers.getSetCookie());
    return response;
  }

  return {
    cookies,
    get: (url, options) => request(url, { ...options, method: 'GET' }),
    request,
    follow(page, words) {
      const href = linkOn(page, words);
      if (href === undefined) throw new Error(`No link on ${page.url} (${page.status}) says "${words}".`);
      return request(href);
    },
    submit(page, fields = {}, { button } = {}) {
      const form = page.forms.find((candidate) => hasFieldsAndButton(candidate, fields, button));
      if (form === undefined) throw new Error(`No form fits on ${page.url} (${page.status}): ${describeForms(page)}`);
      const body = new URLSearchParams([...form.fields, ...fieldOfButton(form, button)]);
      for (const [name, value] of Object.entries(fields)) body.set(name, value);
      const action = new URL(form.action || page.url, page.url);
      if (form.method !== 'POST') {
        action.search = body.toString();
        return request(action.href);
      }
      return request(action.href, { method: 'POST', body, headers: { origin: new URL(page.url).origin } });
    },
  };
}

/** Returns the URL of the first link with this text. */
export function linkOn({ body, url }: Page, words: string): string | undefined {
  const links = [...body.matchAll(/<a\s[^>]*href="([^"]*)"[^>]*>(.*?)<\/a>/gs)];
  const link = links.find(([, , inner = '']) => inner.replaceAll(/<[^>]*>/g, '').includes(words));
  return link && new URL((link[1] ?? '').replaceAll('&amp;', '&'), url).href;
}

async function toPage(url: string, response: Response, visited: string[]): Promise<Page> {
  const body = await response.text();
  const isHtml = response.headers.get('content-type')?.includes('html') ?? false;
  return {
    url,
    status: response.status,
    headers: response.headers,
    body,
    forms: isHtml ? parseForms(body) : [],
    visited,
  };
}

function hasFieldsAndButton(form: Form, fields: Record<string, string>, button?: string): boolean {
  const hasFields = Object.keys(fields).every((name) => form.names.includes(name));
  return hasFields && (button === undefined || form.buttons.some(({ text }) => text === button));
}

function fieldOfButton(form: Form, button?: string): [string, string][] {
  const pressed = button === undefined ? form.buttons[0] : form.buttons.find(({ text }) => text === button);
  return pressed?.name ? [[pressed.name, pressed.value]] : [];
}

function describeForms({ forms, body }: Page): string {
  const list = forms.map(({ action, names, buttons }) => `${action} [${names}] <${buttons.map(({ text }) => text)}>`);
  return list.join('; ') || body.slice(0, 300);
}
