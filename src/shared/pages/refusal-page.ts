/** The page for a browser whose request is refused before the app sees it. It says what to do, and loads nothing. */
import { createHash } from 'node:crypto';
import type { Helper, ProblemCode } from '../errors.ts';
import type { RefusalPage } from '../http/refusal.ts';
import { containsCardNumber } from '../observability/card-numbers.ts';
import type { PageConfig } from './pages.ts';
import { problemText } from './problem-texts.ts';
import type { Html } from './show.ts';
import { createViews } from './views.ts';

declare module './page-data.ts' {
  interface PageData {
    'errors/refused': {
      title: string;
      meaning: string;
      advice: string;
      helper: Helper;
      /** Whether the same request may succeed later. A link cannot send a form again. */
      canRetry: boolean;
      /** The largest cookies that the browser sent, if these are the cause. */
      cookies: readonly CookieSize[];
      host: string;
      homePath: string;
      operatorName: string;
      supportContact: string | undefined;
      style: Html;
    };
  }
}

interface CookieSize {
  name: string;
  bytes: number;
}

type Words = Pick<ReturnType<typeof problemText>, 'title' | 'meaning' | 'advice' | 'helper'>;

export function createRefusalPage({ publicUrl, pages }: PageConfig): RefusalPage {
  const views = createViews({ directories: [], clock: Date.now });
  const hash = createHash('sha256').update(STYLE).digest('base64');
  return {
    policy: `default-src 'none'; style-src 'sha256-${hash}'; img-src data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'`,
    draw({ code, status, method, cookie = '' }) {
      const cookies = status === 431 ? largestCookies(cookie) : [];
      return views.render('errors/refused', {
        ...(cookies.length > 0 ? TOO_MANY_COOKIES : wordsOf(code, status)),
        canRetry: method !== 'POST' && (status === 503 || status === 408 || cookies.length > 0),
        cookies,
        host: publicUrl.host,
        homePath: `${publicUrl.basePath}/`,
        operatorName: pages.operatorName,
        supportContact: pages.supportContact,
        style: STYLE,
      });
    },
  };
}

const TOO_MANY_COOKIES: Words = {
  title: 'Your browser sends too many cookies',
  meaning: 'Programs at this host name have stored more cookies in your browser than we accept with a request.',
  helper: 'you',
  advice:
    'Delete the cookies of this host in the settings of your browser, then try again. You have to sign in again afterwards.',
};

const BY_STATUS: Readonly<Record<number, Words>> = {
  408: {
    title: 'Your request took too long',
    meaning: 'It did not arrive completely in time, so we stopped waiting for it.',
    helper: 'you',
    advice: 'Check your connection, then try again.',
  },
  414: {
    title: 'The address is too long',
    meaning: 'The address that your browser sent is longer than we accept.',
    helper: 'you',
    advice: 'Go to the start page and continue from there.',
  },
  431: {
    title: 'Your browser sends too much',
    meaning: 'The headers of the request are larger than we accept.',
    helper: 'you',
    advice: 'Switch off extensions of your browser that add headers, or use another browser.',
  },
};

function wordsOf(code: ProblemCode, status: number): Words {
  return BY_STATUS[status] ?? problemText(code);
}

const MAX_COOKIES = 8;
/** Smaller ones are not worth a deletion. */
const MIN_COOKIE_BYTES = 100;

/** Returns the largest cookies by name. A name that may hold data of the user, such as a card number, is left out. */
function largestCookies(header: string): CookieSize[] {
  const cookies = header.split(/;\s*/).map((pair) => ({ name: pair.split('=', 1)[0] ?? '', bytes: pair.length }));
  return cookies
    .filter(({ name, bytes }) => /^[\w.-]{1,60}$/.test(name) && !containsCardNumber(name) && bytes >= MIN_COOKIE_BYTES)
    .toSorted((a, b) => b.bytes - a.bytes)
    .slice(0, MAX_COOKIES);
}

const STYLE = [
  ':root{color-scheme:light dark;font:1.05rem/1.5 system-ui,sans-serif}',
  'body{margin:0 auto;max-width:36rem;padding:2rem 1rem}',
  'h1{font-size:1.5rem;line-height:1.25}',
  'h2{font-size:1.1rem;margin-bottom:0}',
  'a + a{margin-left:1.5rem}',
  'code{overflow-wrap:anywhere}',
].join('') as Html;
