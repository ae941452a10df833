/** What the Keys page calls the kinds of encrypted records. The API and the commands use the kinds as stored. */
const WORDS: Readonly<Record<string, string>> = {
  session: 'sessions',
  grant: 'connections',
  'session-id-token': 'ID tokens of sessions',
  'connected-app': 'apps',
  'admin-token': 'admin tokens',
  'relay-token': 'relay tokens',
  'own-keys': 'signing keys',
  'service-account': 'service accounts',
  flash: 'notices after a change',
  transactions: 'requests at a provider',
  webhook: 'webhooks',
  revocation: 'unconfirmed revocations',
  'connect-link': 'connect links',
};

/** A kind of a newer version of Gatehouse keeps its name. */
export const wordsOfKind = (kind: string): string => WORDS[kind] ?? kind;
