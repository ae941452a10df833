/**
 * Segments of paths from public lists of attacks on proxies and file servers (traversal, encodings, separators of path
 * parameters, normalisation): no declared route may match a path with one of them.
 */
export const HOSTILE_SEGMENTS: readonly string[] = [
  ...['.', '..', '%2e', '%2e%2e', '.%2e', '%2e.', '%2E%2E', '%252e%252e', '%25252e%25252e', '%%32%65%%32%65'],
  ...['..%2f', '..%2F', '%2e%2e%2f', '..%252f', '..%5c', '..\\', '%2e%2e%5c', '..%255c', '..%c0%af', '..%c1%9c'],
  ...['%c0%ae%c0%ae', '%c0%2e', '%e0%40%ae', '%e0%80%ae', '%uff0e%uff0e', '%u002e%u002e', '%u2215', '..%u2216'],
  ...['..;', '..;foo=bar', ';', '..%3b', '%2e%2e%3b', 'a;jsessionid=1', '17;../admin', '..%00', '%00', '17%00.json'],
  ...['%2f', '%2F', '%5c', '\\', '17%2fadmin', '17%2f..%2fadmin', '17%5c..%5cadmin', '%252f', '17%252f..', '%25'],
  ...['17%0d%0aHost:%20evil', '%0a', '%0d', '%09', '%7f', '%1b', '%c2%85', '..%0d%0a', '..%09', '.%00.', '.%0a.'],
  ...['%ef%bc%8f', '..%ef%bc%8f', '%ef%bc%8e%ef%bc%8e', '%ef%bc%bc', '%e2%80%a5', '%ef%bc%85%32%65', '%ef%bc%9b'],
  ...[
    '%',
    '%2',
    '%zz',
    '17%',
    '17%g0',
    '%ff',
    '%fe%fe',
    '%80',
    '%ed%a0%80',
    '%f8%80%80%80%af',
    '%c3',
    '\u00e4',
    '\u00ff',
  ],
  // Texts that a server may trim, or map to others of an older character set ("best fit").
  ...['%20', '.%20', '..%20', '%20..', '..%c2%a0', '..%e3%80%80', '..%20%20', '%e2%80%8b', '.%e2%80%8b.', '%c2%ad..'],
  ...['..%ef%bb%bf', '17%e2%88%95admin', '..%e2%81%84', '..%e2%88%96', '..%c2%a5admin', '..%e2%82%a9admin'],
  ...[' ', '17 admin', '\t', '17\u0000', '\u007f', ''],
];
