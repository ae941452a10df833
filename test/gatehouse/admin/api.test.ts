/** The admin API of a filled site: members, values, and refusals with pointers and sentences. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseTable } from './facts.ts';
import { type FilledSite, startFilledSite } from './filled-site.ts';

/** Shared by all tests. The tests that change it come last. */
let filledSite: FilledSite;
beforeAll(async () => {
  filledSite = await startFilledSite();
});
afterAll(() => filledSite?.close());

/** After `#`, the names of the members of a resource, or of the first item of a list; below, some of the values. */
const READS = `
overview?period=week # period from users sessions connections binQuota intervals total previousTotal causes attention setup checkedAt
  from: "2031-02-27T00:00:00.000Z"
  connections: {"total":3,"active":3,"expiring":0,"unverified":0,"reconnect_needed":0}
  binQuota: {"used":1,"limit":10000,"resetsAt":"2031-04-01T00:00:00.000Z"}
  total: {"sign_in.succeeded":3,"sign_in.refused":1,"relay.succeeded":4,"relay.refused":1}
connected-apps/second # id name issuer clientId tokenEndpointAuthMethod scopes callbackUrls apiBaseUrl threadPath routes signIn returnUrls endsEarlierTokens par dpop providerSignOut disabled source version hasClientSecret clientSecretSetAt clientSecretExpiresAt createdAt changedAt callbackUrl postLogoutRedirectUri backchannelLogoutUri unusable signInClaimWarning lastCheck connections ineffectiveEndpoints
  signIn: {"allow":"everyone"}
connected-apps/second/timeline # id at until kind event text actor user app address calls signInId details
  actor: {"kind":"relay_token","id":"{nightly}","name":"nightly","path":"/admin/relay-tokens/{nightly}"}
  user: {"id":"{uma}","name":"Uma Okafor"} / app: {"id":"second","name":"Collaboration second"}
  details: {"app":"second","requestId":"{uuid}"}
relay-tokens/{nightly} # id version name prefix scopes apps routes users networks expiresAt assertUser fullScope acceptIdTokens state binCallsPerMonth createdAt rotatedAt overlapEndsAt lastUsedAt lastUsedAddress idleScopes
  prefix: "gthr_{nightly}"
service-accounts/{account} # id version name app createdAt tokenSetAt
webhooks/{webhook} # id version url events disabled state createdAt overlapEndsAt failingSince lastAttempt
  lastAttempt: {"at":"2031-03-05T10:15:00.000Z","status":204,"error":null}
webhooks/{webhook}/messages # id event state createdAt nextAt attempts
  attempts: [{"at":"2031-03-05T10:15:00.000Z","status":204,"error":null,"manual":true}]
webhooks/{webhook}/messages/{message} # id event state createdAt nextAt attempts body
  attempts: [{"at":"2031-03-05T10:15:00.000Z","status":204,"error":null,"manual":true,"responseBody":null}]
admin-tokens/{terraform} # id name scope createdAt expiresAt state lastUsedAt
users # id issuer subject name email firstSignInAt lastSignInAt disabled disabledAt
users/{uma} # id issuer subject name email firstSignInAt lastSignInAt disabled disabledAt sessions connections pendingRevocations
sessions # id user browser address app startedAt lastSeenAt
  user: {"id":"{ada}","name":"Ada Moreau","email":"admin@example.test"}
connections/{uma}.second # id user app appName account health cause causeText reason scopes missingScopes connectedAt checkedAt notCheckedSince lastUsedAt
connect-links/{link} # id userId app scopes returnUrl relayToken used createdAt expiresAt
  relayToken: {"id":"{nightly}","name":"nightly"}
sign-ins # id reference app appName purpose trial startedAt endedAt outcome cause user browser address references
  user: {"id":"{ada}","name":"Ada Moreau","email":"admin@example.test","presumed":false}
sign-ins/{signIn} # id reference app appName purpose trial startedAt endedAt outcome cause user browser address references redirectUri steps
audit?event=connection.created # id at event actor target userId address requestId facts
  actor: {"kind":"user","id":"{ada}"} / target: {"kind":"connection","id":"{ada}/platform"}
  facts: {"connection":"{connection}","scopes":["openid","profile","email","offline_access","platform_read_only"]}
`;

test.each(parseTable(READS))(
  'GET %s has these members and values',
  async (path, [expectedNames, ...expectedValues]) => {
    const { status, json } = await filledSite.api.call('GET', `/${filledSite.pathOf(path)}`);

    const items = (json.items ?? []) as Record<string, unknown>[];
    const resource = items[0] ?? json;
    expect([status, `# ${Object.keys(resource).join(' ')}`]).toEqual([200, expectedNames]);
    const values = Object.entries(resource).map(([name, value]) =>
      filledSite.clean(`${name}: ${JSON.stringify(value)}`),
    );
    expect(values.filter((value) => expectedValues.includes(value))).toEqual(expectedValues);
  },
);

test('a denied sign-in has its passed, failed and missing steps in order', async () => {
  const { json } = await filledSite.api.call('GET', filledSite.pathOf('/sign-ins/{signIn}'));
  const steps = json.steps as { text: string; result: string }[];
  const wordsOf = (result: string) => {
    const withResult = steps.filter((step) => step.result === result);
    return withResult.map(({ text }) => text).join('; ');
  };
  expect([wordsOf('passed'), wordsOf('failed'), wordsOf('not_reached')]).toEqual([
    'Started; Sent to the identity provider; Came back from the provider; State is genuine and has not expired; Same browser as at the start; Callback URL is that of the app; Response is genuine (state, iss)',
    'The user or the provider did not consent',
    'Tokens received; ID token: form; ID token: times; ID token: issuer; ID token: audience; ID token: nonce; ID token: signature; User identified; User may sign in; Session saved; Connection saved',
  ]);
});

/** Refused calls. Below each, its faults: the pointers that a sentence is about, and the sentence. */
const REFUSED = `
POST connected-apps {"name":"","events":[],"scopes":["x"],"url":"x"}
  #/id #/issuer #/clientId: Enter a string. #/name: Enter a name. #/callbackUrls: Enter an array. #: Remove unknown names: "events", "url". #/clientSecret: Enter the client secret.
POST relay-tokens {"name":"","events":[],"scopes":["x"],"url":"x"}
  #/name: Enter a name. #/scopes/0: Use one of: "threads:read", "api:call", "bin:read", "token:exchange", "connections:read", "connect_links:create". #/users: Use "all", "none", or a list of user ids. #/expiresAt: Enter a time such as 2027-01-31T00:00:00Z. #: Remove unknown names: "events", "url".
POST service-accounts {}
  #/name #/app #/apiToken: Enter a string.
POST service-accounts {"name":"","events":[],"scopes":["x"],"url":"x"}
  #/name: Enter a name. #/app #/apiToken: Enter a string. #: Remove unknown names: "events", "scopes", "url".
POST webhooks {"name":"","events":[],"scopes":["x"],"url":"x"}
  #/events: Choose at least one event. #: Remove unknown names: "name", "scopes".
POST admin-tokens {}
  #/name: Enter a string. #/scope: Use one of: "read", "write". #/expiresAt: Enter a time such as 2027-01-31T00:00:00Z.
POST admin-tokens {"name":"","events":[],"scopes":["x"],"url":"x"}
  #/name: Enter a name. #/scope: Use one of: "read", "write". #/expiresAt: Enter a time such as 2027-01-31T00:00:00Z. #: Remove unknown names: "events", "scopes", "url".
POST admin-tokens {"name":"late","scope":"read","expiresAt":"2031-03-05T10:00:00Z"}
  #/expiresAt: Enter a time in the future, at most ten years from now.
POST admin-tokens {"name":"long","scope":"read","expiresAt":"2042-03-05T10:00:00Z"}
  #/expiresAt: Enter a time in the future, at most ten years from now.
POST policy/explain {"name":"","events":[],"scopes":["x"],"url":"x"}
  #/relayToken #/address: Enter a string. #/scope: Use one of: "threads:read", "api:call", "bin:read", "token:exchange", "connections:read", "connect_links:create". #: Remove unknown names: "name", "events", "scopes", "url".
PUT connected-apps/platform {}
  #/name #/issuer #/clientId: Enter a string. #/tokenEndpointAuthMethod #/threadPath #/routes #/returnUrls #/endsEarlierTokens #/par #/dpop #/providerSignOut #/disabled: Add this member: a change cannot leave it out. #/scopes #/callbackUrls: Enter an array. #/version: Enter a number.
PUT relay-tokens/{nightly} {}
  #/name: Enter a string. #/scopes: Enter an array. #/apps #/routes #/networks #/assertUser #/fullScope #/acceptIdTokens #/binCallsPerMonth: Add this member: a change cannot leave it out. #/users: Use "all", "none", or a list of user ids. #/expiresAt: Enter a time such as 2027-01-31T00:00:00Z. #/version: Enter a number.
PUT webhooks/{webhook} {}
  #/url: Enter a string. #/events: Enter an array. #/disabled: Add this member: a change cannot leave it out. #/version: Enter a number.
POST relay-tokens/{nightly}/rotate {"overlapSeconds":2592001}
  #/overlapSeconds: Use 2592000 or less.
POST register-at-provider {}
  #/id #/name #/issuer: Enter a string. #/scopes #/callbackUrls: Enter an array.
POST connections/import {"entries":[]}
  #/entries: Add at least one item.
GET sessions?limit=0
  #/limit: Use 1 or more.
GET relay-tokens?state=none
  #/state: Use one of: "active", "expiring", "expired".
DELETE connected-apps/second
  #: One user is connected with this app: disconnect everyone first. This revokes their access at the provider.
`;

test.each(parseTable(REFUSED))('%s is refused with each fault', async (call, expectedFaults) => {
  const [method = '', path = '', body] = call.split(' ');
  const { status, json } = await filledSite.api.call(method, `/${filledSite.pathOf(path)}`, body && JSON.parse(body));

  const errors = json.errors as { pointer: string; detail: string }[];
  const errorsByDetail = Map.groupBy(errors, ({ detail }) => detail);
  const faults: string[] = [];
  for (const [detail, sameDetail] of errorsByDetail) {
    const pointers = sameDetail.map(({ pointer }) => pointer).join(' ');
    faults.push(`${pointers}: ${detail}`);
  }
  expect([status, json.code, faults.join(' ')]).toEqual([400, 'invalid_request', ...expectedFaults]);
});

const GONE_UPLOAD = 'This upload was imported, discarded or replaced, or is older than an hour. Upload the file again.';

test.each([
  ['GET connected-apps/none', 'There is no connected app with this id.'],
  ['GET connect-links/none', 'There is no connect link with this id.'],
  ['DELETE connect-links/none', 'There is no connect link with this id.'],
  ['GET webhooks/{webhook}/messages/none', 'There is no message of this webhook with this id.'],
  ['POST bin/rollback', 'There is no earlier data set. Import one first.'],
  ['GET bin/uploads/none', GONE_UPLOAD],
  ['POST bin/uploads/none/import', GONE_UPLOAD],
  ['DELETE bin/uploads/none', GONE_UPLOAD],
])('%s is 404: %s', async (call, detail) => {
  const [method = '', path = ''] = call.split(' ');
  const body = method === 'POST' ? {} : undefined;
  const { status, json } = await filledSite.api.call(method, `/${filledSite.pathOf(path)}`, body);

  expect([status, json.code, json.detail]).toEqual([404, 'not_found', detail]);
});

/** POST requests. After `#`, the status and the names of the members of the response. */
const CHANGES = `
policy/explain {"relayToken":"{reports}","scope":"bin:read","address":"127.0.0.1"} # 200 allowed rules conditions userId
callback-urls {"id":"second","urls":["https://gatehouse.example/oauth/callback/second"]} # 200 faults
route-patterns {"routes":[{"name":"thread","method":"GET","path":"/1/threads/{id}"}]} # 200 faults
connected-apps/second/check # 200 ok findings
relay-tokens/{nightly}/rotate {} # 200 id version name prefix scopes apps routes users networks expiresAt assertUser fullScope acceptIdTokens state binCallsPerMonth createdAt rotatedAt overlapEndsAt lastUsedAt lastUsedAddress idleScopes token
webhooks/{webhook}/rotate {} # 200 id version url events disabled state createdAt overlapEndsAt failingSince lastAttempt secret
webhooks/{webhook}/test # 200 id event state createdAt nextAt attempts body
webhooks/{webhook}/messages/{message}/resend # 200 id event state createdAt nextAt attempts body
keys/rotate-encryption {} # 202 kid startedAt finishedAt total done unreadable removable failure
connected-apps/second/disconnect-everyone # 202 app startedAt finishedAt total done results
users/{uma}/disable # 200 id issuer subject name email firstSignInAt lastSignInAt disabled disabledAt
`;

test.each(parseTable(CHANGES))('POST %s responds with this status and these members', async (call, [expected]) => {
  const [path = '', bodyWithNames] = call.split(' ');
  const body = bodyWithNames && JSON.parse(filledSite.pathOf(bodyWithNames));
  const { status, json } = await filledSite.api.call('POST', `/${filledSite.pathOf(path)}`, body);

  expect(`# ${status} ${Object.keys(json).join(' ')}`).toBe(expected);
});
