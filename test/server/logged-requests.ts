/** Requests with secrets, for tests of the logs of proxies. */

/** One card number, written in several ways. */
export const CARD_NUMBERS = [
  '4571736012345678',
  '4571 7360 1234 5678',
  '4571-7360-1234-5678',
  '４５７１７３６０１２３４５６７８',
];
export const SECRETS = ['the-code', 'the-state', 'gthr_the-token', 'the-other-token'];

/** Request targets, each with its form in the log. */
export const REQUESTS: [target: string, logged: string][] = [
  ...CARD_NUMBERS.flatMap((number): [string, string][] => [
    [`/bin/${encodeURIComponent(number)}`, '/bin/...'],
    [`/relay/bin/${encodeURIComponent(number)}`, '/relay/bin/...'],
    [`/${encodeURIComponent(number)}`, '/...'],
    [`/threads/current?bin=${encodeURIComponent(number)}`, '/threads/current'],
  ]),
  ['/bin/%34%35%37%31736012345678', '/bin/...'],
  ['//bin/4571736012345678', '/...'],
  ['http://4571736012345678.example.com/bin/4571736012345678', '/bin/...'],
  ['/oauth/callback/platform?code=the-code&state=the-state', '/oauth/callback/platform'],
  ['/relay/threads/current?token=gthr_the-token', '/relay/threads/current'],
  ['/relay/threads/gthr_the-token', '/relay/threads/...'],
  ['/relay/threads/current', '/relay/threads/current'],
  ['/', '/'],
];
