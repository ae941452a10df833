/** The callback URLs that may be registered, and the name of each fault. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { callbackFaults } from '../../src/sandbox/callback-rules.ts';

describe('callback URLs', () => {
  it.each([
    'https://app.example.com/callback',
    'https://app.example.com/callback?tenant=1',
    'https://app.example.com:8443/',
    'https://app.example.com/a..b/.well-known/...',
    'http://127.0.0.1:3000/callback',
    'http://[::1]/callback',
    'http://localhost/callback',
  ])('%s may be registered', (url) => {
    expect(callbackFaults([url])).toEqual([[]]);
  });

  it.each([
    ['', ['not_absolute']],
    ['/callback', ['not_absolute']],
    ['//app.example.com/callback', ['not_absolute']],
    ['https:app.example.com', ['not_absolute']],
    ['http://app.example.com/callback', ['not_https']],
    ['http://127.0.0.1.example.com/', ['not_https']],
    ['myapp://callback', ['not_https']],
    ['https://*.example.com/', ['wildcard']],
    ['https://app.example.com/*', ['wildcard']],
    ['https://app.example.com/#', ['fragment']],
    ['https://user:word@app.example.com/', ['userinfo']],
    ['https://@app.example.com/', ['userinfo']],
    ['https://app.example.com/a/../b', ['dot_segments']],
    ['https://app.example.com/a/%2E%2e/b', ['dot_segments']],
    ['https://app.example.com/a/..;x/b', ['dot_segments']],
    ['https://app.example.com/a%2f..%2fb', ['dot_segments']],
    ['https://app.example.com\\@evil.example/', ['backslash', 'userinfo']],
    ['https://app.example.com/a b', ['control']],
    ['https://app.example.com/\n', ['control']],
  ])('%j is refused with %j', (url, faults) => {
    expect(callbackFaults([url])).toEqual([faults]);
  });

  it('are refused as duplicates', () => {
    const url = 'https://app.example.com/callback';
    expect(callbackFaults([url, url])).toEqual([[], ['duplicate']]);
  });

  it('that are accepted are not changed by a URL parser', () => {
    const piece = fc.constantFrom('a', '/', '..', '%2e', '%2F', '\\', '@', '#', '*', '?', ' ', ';x', '.', ':8', '\t');
    const tail = fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join(''));
    fc.assert(
      fc.property(tail, (end) => {
        const text = `https://app.example.com/${end}`;
        if (callbackFaults([text]).flat().length > 0) return;
        const { hostname, username, hash, pathname } = new URL(text);
        expect([hostname, username, hash]).toEqual(['app.example.com', '', '']);
        expect(text.split('?')[0]).toBe(`https://app.example.com${pathname}`);
      }),
    );
  });
});
