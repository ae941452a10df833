/** Visits all pages that links reach. */
import type { Page, UserAgent } from './browserless.ts';

/** Follows links within the origin. Visits one page of each URL pattern, ignoring ids and query values. */
export async function crawl(agent: UserAgent, start: string): Promise<Page[]> {
  const { origin } = new URL(start);
  const uncrawledUrls = [start];
  const seenPatterns = new Set<string>();
  const pages: Page[] = [];
  for (let nextUrl = uncrawledUrls.pop(); nextUrl !== undefined; nextUrl = uncrawledUrls.pop()) {
    const url = new URL(nextUrl);
    const pattern = url.pathname.replaceAll(/(?<=\/)[\w-]*\d[\w-]*/g, '*') + [...url.searchParams.keys()].join();
    if (url.origin !== origin || seenPatterns.has(pattern)) continue;
    seenPatterns.add(pattern);
    const page = await agent.get(url.href);
    if (!page.headers.get('content-type')?.includes('html') || !page.url.startsWith(origin)) continue;
    pages.push(page);
    const links = page.body.matchAll(/<a\s[^>]*href="([^"#]+)/g);
    uncrawledUrls.push(...[...links].map(([, href = '']) => new URL(href.replaceAll('&amp;', '&'), page.url).href));
  }
  return pages;
}
