/** Each change of a filled site: the notice on the page, and the audit entry. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Page } from '../../support/browserless.ts';
import { outlineOf } from '../../support/outline.ts';
import { sendRequest } from '../../support/send-request.ts';
import { until } from '../../support/until.ts';
import { bearer } from '../relay/service.ts';
import { expectLines, parseFacts, parseTable } from './facts.ts';
import { advanceBy, type FilledSite, inDays, startFilledSite } from './filled-site.ts';

/** Shared by all tests, which do not depend on each other. */
let filledSite: FilledSite;
beforeAll(async () => {
  filledSite = await startFilledSite();
});
afterAll(() => filledSite?.close());

const open = (path: string) => filledSite.agent.get(`${filledSite.site.url}/admin/${filledSite.pathOf(path)}`);
const linesOf = (html: string) => filledSite.clean(outlineOf(html)).trim().split('\n');

/** The notice that a page shows after a change. */
const NOTICE = /<div class="notice notice-(\w+)" role="\w+">(.*?)<\/(?:ul|p)>\s*<\/div>/gs;
const noticesOn = ({ body }: Page) =>
  [...body.matchAll(NOTICE)].map(([, tone, inner = '']) => `${tone}: ${linesOf(inner).join(' ')}`);

/**
 * For each change: the page, and after `#` the pressed button and the entered values; below, the notice on the next
 * page, and the audit entries with their targets and facts.
 */
const CHANGES = `
connect-links/{link}/revoke # [Revoke connect link]
  success: Connect link revoked. / connect_link.revoked connect_link {link} second for {uma}
relay-tokens/new # name=made&apps=platform&expiry=30
  success: Relay token created.
  relay_token.created relay_token {new} made {"name":"made","scopes":["threads:read"],"apps":["platform"],"routes":[],"networks":[],"assertUser":false,"fullScope":false,"acceptIdTokens":false,"binCallsPerMonth":null,"users":"none","expiresAt":"2031-04-04T10:16:02.000Z"}
relay-tokens/{nightly}/edit # name=renamed
  success: Saved. All processes use the change within a second.
  relay_token.changed relay_token {nightly} nightly {"changed":["name"],"name":"renamed","scopes":["threads:read","bin:read","token:exchange","connections:read","connect_links:create"],"apps":["platform","second"],"routes":[],"networks":[],"assertUser":true,"fullScope":false,"acceptIdTokens":false,"binCallsPerMonth":null,"users":"2 listed","expiresAt":"2031-03-14T10:00:00.000Z"}
relay-tokens/{nightly}/rotate # overlapHours=2
  success: The relay token has a new secret. / relay_token.rotated relay_token {nightly} renamed {"overlapSeconds":7200}
relay-tokens/{nightly}/revoke # [Revoke relay token]
  success: Relay token revoked. Every further call with it is refused.
  relay_token.revoked relay_token {nightly} renamed
service-accounts/new # name=&app=platform&apiToken=
  warning: Nothing was saved. Correct this and try again: - Enter a name. <#name> - Enter the API token as the platform showed it, without spaces. <#apiToken>
service-accounts/new # name=other&app=platform&apiToken={apiToken}
  success: The platform accepted the API token. It is saved and never shown again.
  service_account.created service_account {new} other {"app":"platform"}
service-accounts/{account}/replace # apiToken=
  warning: Nothing was saved. Correct this and try again: - Enter the API token as the platform showed it, without spaces. <#apiToken>
service-accounts/{account}/replace # apiToken={apiToken}
  success: The new API token is saved and used from now on.
  service_account.changed service_account {account} Batch {"changed":["apiToken"],"name":"Batch"}
service-accounts/{account}/remove # [Delete service account]
  success: Service account deleted, with the API token. / service_account.deleted service_account {account} Batch
webhooks/new # url=x&events=
  warning: Nothing was saved. Correct this and try again: - Use one of: "connection.created", "connection.reconnect_needed", "connection.recovered", "connection.removed", "connection.scopes_missing". <#events>
webhooks/new # url={hook}&events=connection.created
  success: Webhook created. Store its signing secret, then send a test message.
  webhook.created webhook {new} https://receiver.example {"host":"https://receiver.example","events":["connection.created"]}
webhooks/{webhook}/edit # url=x
  warning: Nothing was saved. Correct this and try again: - Enter a public https address, or an address listed in INTERNAL_HOSTS. <#url>
webhooks/{webhook}/edit # url={hook}&events=connection.created
  success: Saved.
  webhook.changed webhook {webhook} https://receiver.example {"changed":["events"],"host":"https://receiver.example","events":["connection.created"],"disabled":false}
webhooks/{webhook}/rotate # overlapHours=1
  success: The webhook has a new secret.
  webhook.rotated webhook {webhook} https://receiver.example {"overlapSeconds":3600}
webhooks/{webhook} # [Send test message]
  success: Test message delivered. The receiver responded with 204.
  webhook.tested webhook {webhook} https://receiver.example
webhooks/{webhook} # [Send again Test message]
  success: Message delivered. The receiver responded with 204.
  webhook.message_resent webhook {webhook} https://receiver.example {"message":"{new message}","event":"webhook.test"}
webhooks/{webhook}/remove # [Delete webhook]
  success: Webhook deleted. Pending messages are not sent.
  webhook.deleted webhook {webhook} https://receiver.example
admin-tokens/new # name=&expiry=date
  warning: Nothing was saved. Correct this and try again: - Enter a name. <#name> - Enter a date such as 2027-01-31. <#expiresOn>
admin-tokens/new # name=made&expiry=30
  success: Admin token created.
  admin_token.created admin_token {new} made {"scope":"read","expiresAt":"2031-04-04T10:16:20.000Z"}
admin-tokens/{terraform}/revoke # [Revoke admin token]
  success: Admin token revoked. Every further call with it is refused.
  admin_token.revoked admin_token {terraform} terraform
connected-apps/second/settings # [Save] name=Renamed
  success: Saved. The change takes effect at once.
  connected_app.changed connected_app second Renamed {"changed":["name"]}
connected-apps/second/disable # [Disable app]
  info: The app is disabled. Sign-ins and calls with it are refused until you enable it again.
  connected_app.disabled connected_app second Renamed {"changed":["disabled"]}
connected-apps/second # [Enable app]
  success: The app is enabled again. / connected_app.enabled connected_app second Renamed {"changed":["disabled"]}
connected-apps/second/delete # typed=x
  warning: Nothing was saved. Correct this and try again: - Type “Renamed” to confirm. <#typed>
connections/{uma}.platform/end # [Disconnect]
  success: Disconnected. The provider has confirmed the revocation (status 200).
  connection.removed connection {uma}/platform user {uma} {"connection":"{connection}"}
  revocation.confirmed connection {uma}/platform user {uma} revoked {"connection":"{connection}","status":200}
sessions/{session}/end # [End session]
  success: The session has ended. Pages that are open in that browser stop working.
  session.ended session {uma}.{rest} user {uma}
users/{uma}/sign-out # [Sign out everywhere]
  success: Signed out everywhere. Pages that are open in those browsers stop working.
  session.ended_everywhere user {uma} user@example.test
users/{uma}/disable # [Disable user]
  success: Disabled. All sessions have ended, and the user cannot sign in.
  user.disabled user {uma} user@example.test
users/{uma} # [Enable user]
  success: Enabled. The user can sign in again. / user.enabled user {uma} user@example.test
users/{uma}/delete # typed=user@example.test
  success: All data about this user is deleted. Entries in the audit trail stay until they expire.
  user.deletion_started user {uma} user@example.test
  connection.removed connection {uma}/second user {uma} revoked {"connection":"{connection}","status":200}
  user.deleted user {uma}
keys # [Publish the next key now]
  success: The next signing key is published. It is used for signing from tomorrow on, so that every service has time to read it.
  signing_key.rotated
`;

interface Entry {
  at: string;
  event: string;
  actor: object;
  target?: { kind: string; id: string; name?: string };
  userId?: string;
  outcome?: string;
  code?: string;
  facts?: object;
}

test('each change has this notice, and this entry in the audit trail', async () => {
  const { agent, api, apiToken, receiver, clean } = filledSite;
  const changes = parseTable(CHANGES);
  const results: { at: string; notices: string[] }[] = [];
  for (const [path, [input = '']] of changes) {
    advanceBy(1_000);
    const [, button, fields = ''] = /^# (?:\[(.*)\])? ?(.*)$/.exec(input) ?? [];
    const values = new URLSearchParams(fields.replace('{hook}', receiver.url).replace('{apiToken}', apiToken));
    const choice = button === undefined ? {} : { button };
    const page = await agent.submit(await open(path), Object.fromEntries(values), choice);
    results.push({ at: new Date().toISOString(), notices: noticesOn(page) });
  }

  const entries = async () => (await api.call('GET', '/audit?limit=200')).json.items as Entry[];
  // The entry of a deleted user is the last one, and is stored after the response.
  await until(async () => (await entries()).some(({ event }) => event === 'user.deleted'));
  const trail = (await entries()).toReversed();
  for (const [index, [path, [input = '', ...expected]]] of changes.entries()) {
    // The clock moves only between changes, so the time of an entry shows its change.
    const { at, notices = [] } = results[index] ?? {};
    // After a change the app is checked in the background, at a time that no test controls.
    const entriesOfChange = trail.filter((entry) => entry.at === at && entry.event !== 'connected_app.checked');
    const actual = [...notices, ...entriesOfChange.map((entry) => clean(wordsOf(entry)))];
    expect([path, input, ...actual]).toEqual([path, input, ...expected]);
    for (const { actor } of entriesOfChange)
      expect(actor).toMatchObject({ kind: 'administrator', name: 'admin@example.test' });
  }
});

const wordsOf = ({ event, target, userId, outcome, code, facts }: Entry) =>
  [
    event,
    target?.kind,
    target?.id,
    target?.name,
    userId && `user ${userId}`,
    outcome,
    code,
    facts && JSON.stringify(facts),
  ]
    .filter(Boolean)
    .join(' ');

/** The findings of a check of an app that is registered here, but not at the provider. */
const FINDINGS = `
Failed
  Clocks agree: This clock is {seconds} off the provider's.
  Callback URL is registered at the provider: The provider refused the authorization request with status 400. The cause may be the callback URL, the client ID or another parameter.
  Client ID and secret are accepted: The token endpoint does not accept the client ID with this secret (status 401, invalid_client).
Passed
  App lists the callback URL of this server: The app's callback URLs include that of this server.
  The rule for who may sign in is readable: No claim decides who may sign in.
  Discovery can be read: The provider publishes its metadata.
  Issuer is the registered one: The provider names the registered issuer.
  Endpoints may be called: Every endpoint may be called.
  Signing keys can be read: The provider publishes 2 keys.
  Signature algorithms are acceptable: ID tokens may be signed with RS256, ES256.
  PKCE with S256: The provider checks PKCE with S256.
  The callback names its issuer: The provider names itself in the callback (RFC 9207), and Gatehouse checks it.
  Scopes are known: The provider knows every scope of this app.
  Sign-out at the provider: Signing out here also signs out at the provider.
  Back-channel logout: The app is not used for sign-in, so there is no session to end.
Cannot tell
  Settings match the preset of the provider: No preset is known for this provider.
  Connection is protected (TLS): The provider is called without TLS, which is allowed on this machine only.
  Authorization request is accepted: Not tried: fix the problem above first.
  Revocation: The revocation endpoint refused a made-up token, as some providers do (status 401).
  Refresh token is issued: No user has signed in or connected with this app yet. Check again after that.
  Refresh tokens rotate: No user has signed in or connected with this app yet. Check again after that.
  The lifetime of access tokens is stated: No user has signed in or connected with this app yet. Check again after that.
`;

test('the registration of an app shows these texts, step by step', async () => {
  const { agent, site } = filledSite;
  const submit = (page: Page, fields: Record<string, string>, button: string) => agent.submit(page, fields, { button });
  const provider = { id: '', name: 'Third app', issuer: site.sandbox.issuer };
  const credentials = { clientId: 'test-third', clientSecret: 'third-client-secret-0123456789' };

  const faulty = await submit(await open('register-app'), { id: 'A b', name: '', issuer: 'x' }, 'Continue');
  expectLines(linesOf(faulty.body), [
    'Enter an absolute URL without user name or fragment, beginning with https://. <#issuer>',
    'Enter a name. <#name>',
    'An id is 1 to 40 of a-z, 0-9 and "-". <#id>',
  ]);
  const withoutDomain = await submit(await open('register-app?preset=auth0'), {}, 'Continue');
  expectLines(linesOf(withoutDomain.body), [
    'Enter your Auth0 domain. <#placeholder-0>',
    'Enter the identifier of your API at Auth0. <#placeholder-1>',
  ]);

  const secondStep = await submit(await open('register-app'), provider, 'Continue');
  const offered = `
    Endpoints: authorization, token, userinfo, revocation, end-session, introspection, signing keys
    PKCE (S256): Supported / Pushed requests (PAR): Supported / Tokens bound to a key (DPoP): Supported
    Disconnecting: Revokes the grant at the provider / Sign-out: Also at the provider / Back-channel logout: Supported
    Dynamic registration: Supported`;
  const secondStepFacts = `
    1Provider (done) / The provider responded with this metadata: ${offered}
    JWKS URL, if you authenticate by private_key_jwt: https://gatehouse.example/.well-known/jwks.json [Copy]
    No client ID yet? The provider can assign one <#register-there-title>.
    Stored encrypted and never shown again. / [*radio signIn=] No users: the app is only for connecting
    The app is registered at the provider and here in one step, with the scopes and the use above. You do not need a client ID and secret.
    If the provider requires one. It is sent once and not stored.`;
  expectLines(linesOf(secondStep.body), parseFacts(secondStepFacts));

  const check = await submit(secondStep, credentials, 'Register app');
  const checkFacts = `
    The app is registered. This is its first check. / 3 problems found, just now. / 2Registration (done)
    Users cannot sign in with this app. Connect it for yourself, and see each step. This replaces any connection of yours to it.
    Synchronise the clock of this server (NTP): otherwise ID tokens seem expired or not yet valid.
    Enter https://gatehouse.example/oauth/callback/third-app at the provider, character by character, and compare the client ID. If both are right, compare the scopes and the extra parameters with its documentation.
    Compare the client ID, enter the secret again, and check whether it has expired at the provider.`;
  const lines = linesOf(check.body);
  expectLines(lines, parseFacts(checkFacts));
  const rows = [...lines.join('\n').matchAll(/^\| (?<name>.+) \| (?<result>.+) \|\n(?<sentence>.+)/gm)];
  for (const [result, expectedFindings] of parseTable(FINDINGS)) {
    const rowsWithResult = rows.filter(({ groups }) => groups?.result === result);
    const findings = rowsWithResult.map(({ groups }) => `${groups?.name}: ${groups?.sentence}`);
    expect(findings).toEqual(expectedFindings);
  }

  const settings = await submit(await open('connected-apps/second/settings'), {}, 'Read provider settings');
  expectLines(linesOf(settings.body), parseFacts(`The provider responded. Its scopes are listed above. ${offered}`));
});

test('an upload of BIN data, its import and the rollback show these texts', async () => {
  const { agent, api, site } = filledSite;
  const newToken = { name: 'up', scope: 'write', expiresAt: inDays(1) };
  const { json: adminToken } = await api.call('POST', '/admin-tokens', newToken);
  const upload = await sendRequest(`${site.url}/admin/api/bin/uploads?asOf=2031-03-01&source=Card%20data&licence=CC0`, {
    ...{ method: 'POST', headers: { ...bearer(String(adminToken.token)), 'content-type': 'text/csv' } },
    body: 'BIN,Brand,Type,isoCode2\n40001234,VISA,DEBIT,DK\n40001235,VISA,CREDIT,SE\nx,VISA,CREDIT,SE\n',
  });
  const { id, ...json } = JSON.parse(upload.body);
  expect(json).toMatchObject({ badRows: 1, faults: [{ line: 4, reason: 'not_6_to_11_digits' }] });
  expect(json.expiresAt).toBe(new Date(Date.now() + 3_600_000).toISOString());

  const rejected =
    'Line 4: the range does not begin and end with 6 to 11 digits, or with longer numbers padded with 0 and 9: correct it';
  const page = await open(`bin/uploads/${id}`);
  const reviewFacts = `
    Nothing has changed yet. This upload is stored until 5 March 2031 at 11:16 UTC. / Source: Card data / Licence: CC0 / Bad rows: 1 / ${rejected}
    Replaces: banks-db 0.12.0, as of 16 July 2017 / As of: 1 March 2031 / Rows: 2 (now 17,324)
    BINs covered: 1,746,203 (now 1,746,201) / BINs added: 2 / BINs removed: 0 / BINs changed: 0
    Counted as BINs of 8 digits: a prefix of 6 digits covers 100 of them. For BINs that are not in the import, the built-in data set is used.
    [ Discard ]`;
  expectLines(linesOf(page.body), parseFacts(reviewFacts));

  const imported = await agent.submit(page, {}, { button: 'Import 2 rows' });
  const importedFacts = `
    Imported 2 rows of Card data. All processes use it within two seconds. / Bad rows: 1 / ${rejected}
    Previous: banks-db 0.12.0, as of 16 July 2017, 17,324 rows. / | Visa | | 2 100.0 % / | Denmark | | 1 50.0 %`;
  expectLines(linesOf(imported.body), parseFacts(importedFacts));

  const question = await open('bin/rollback');
  const questionFacts = `
    # Roll back to the previous BIN data?
    Lookups use banks-db 0.12.0 (as of 2017-07-16, 17,324 rows) again, instead of Card data (as of 2031-03-01, 2 rows).
    You can switch back in the same way.`;
  expectLines(linesOf(question.body), parseFacts(questionFacts));

  const rolledBack = await agent.submit(question, {}, { button: 'Roll back' });
  const rolledBackFacts = `
    Rolled back to banks-db 0.12.0. All processes use it within two seconds.
    Source: banks-db 0.12.0 / Previous: Card data, as of 1 March 2031, 2 rows.`;
  expectLines(linesOf(rolledBack.body), parseFacts(rolledBackFacts));
});
