/** The description of a browser: known names only, and no text of the header. */
import Bowser from 'bowser';
import { expect, test, vi } from 'vitest';
import { describeBrowser } from '../../../src/shared/http/describe-browser.ts';

const FIREFOX = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0';

test.each([
  [FIREFOX, 'Firefox on Windows'],
  ['Firefox/140.0', 'Firefox'],
  ['Something (Windows NT 10.0)', 'A browser on Windows'],
  ['curl/8.10.1', undefined],
  ['Evil<script>/1.0', undefined],
  ['', undefined],
  [undefined, undefined],
])('%s: %s', (userAgent, description) => {
  expect(describeBrowser(userAgent)).toBe(description);
});

test('only the beginning of a long text is read', () => {
  const describeAt = (length: number) =>
    describeBrowser(`${'x'.repeat(length - ' Firefox/140.0'.length)} Firefox/140.0`);
  expect([describeAt(512), describeAt(560)]).toEqual(['Firefox', undefined]);
});

test('a repeated text is parsed once', () => {
  const parse = vi.spyOn(Bowser, 'parse');
  const userAgents = [FIREFOX, 'unheard-of/1.0'].map((text) => text.replace('140', '139'));
  for (let count = 0; count < 3; count += 1) {
    expect(userAgents.map(describeBrowser)).toEqual(['Firefox on Windows', undefined]);
  }
  expect(parse).toHaveBeenCalledTimes(2);
});
