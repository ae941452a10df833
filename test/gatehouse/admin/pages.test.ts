/**
 * The administration of a filled site. Five pages are in the folder `pages` as a whole: after an intended change of
 * one, `npm run t test/gatehouse/admin/pages.test.ts -- -u` writes it again. Of the others, the lines that carry facts
 * are here.
 */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AUDIT_EVENTS } from '../../../src/gatehouse/audit/kinds.ts';
import { createConnectionIndex } from '../../../src/gatehouse/grants/connection-index.ts';
import type { RefreshFailure } from '../../../src/gatehouse/grants/refresh-failure.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { signIn } from '../../support/gatehouse.ts';
import { outlineOf } from '../../support/outline.ts';
import { expectLines, parseTable } from './facts.ts';
import { advanceBy, DAY_MS, type FilledSite, inDays, startFilledSite } from './filled-site.ts';

/** Shared by all tests. Only the last test changes it. */
let filledSite: FilledSite;
beforeAll(async () => {
  filledSite = await startFilledSite();
  await filledSite.untilCounted();
});
afterAll(() => filledSite?.close());

const open = (path: string, agent: UserAgent = filledSite.agent) =>
  agent.get(`${filledSite.site.url}/admin/${filledSite.pathOf(path)}`);
const linesOf = ({ body }: { body: string }) => filledSite.clean(outlineOf(body)).split('\n');

async function expectFacts(path: string, facts: readonly string[], agent?: UserAgent): Promise<void> {
  const page = await open(path, agent);
  const lines = linesOf(page);
  expect([page.status, lines[0]]).toEqual([200, expect.stringMatching(/ · Gatehouse$/)]);
  expectLines(lines, facts);
}

test.each<[string, string, 'main' | 'body']>([
  ['overview', '?period=week', 'main'],
  // With the header and footer of every page.
  ['users', 'users', 'body'],
  ['webhook', 'webhooks/{webhook}', 'main'],
  ['register-app', 'register-app', 'main'],
  ['delete-user', 'users/{uma}/delete', 'main'],
])('%s: the whole page', async (name, path, part) => {
  const text = filledSite.clean(outlineOf((await open(path)).body, part));
  await expect(text).toMatchFileSnapshot(join(import.meta.dirname, 'pages', `${name}.txt`));
});

const PAGES = `
users/{uma} # Uma Okafor
  Active user@example.test / Last sign-in: 13 min ago / Subject at the issuer: sbx-00u1
  Changes to this user </admin/audit?target={uma}> Actions by this user </admin/audit?actor={uma}> Sign-ins </admin/sign-ins?q=user%40example.test>
  | Collaboration platform </admin/connections/{connection}> | Active | user@example.test | 14 min ago | 6 min ago |
  | Unknown browser 127.0.0.1 | Collaboration platform | 14 min ago | 6 min ago |
  All <?#timeline> Sign-ins <?kind=sign_ins#timeline> Connections <?kind=connections#timeline> Relay calls <?kind=relay#timeline> Refusals <?kind=refusals#timeline> Changes <?kind=changes#timeline> Audit trail </admin/audit?target={uma}>
  Created a link to connect Collaboration second / 10:14 UTC · nightly </admin/relay-tokens/{nightly}> · 127.0.0.1
  reports made 2 calls to Collaboration platform </admin/audit?actor={reports}&from=2031-03-05T10:00:00.000Z&to=2031-03-05T11:00:00.000Z>
  Ends every session and prevents sign-ins until you enable the user again. / Disable user… </admin/users/{uma}/disable>
  Deletes all data about this user, and revokes the connections at the providers. This cannot be undone.
  Delete user… </admin/users/{uma}/delete>
users/{ada} # Ada Moreau you
  | Unknown browser this browser 127.0.0.1 | Collaboration platform | just now | just now |
sessions # Sessions
  | User, App | Browser, Address | Signed in | Last seen | Actions
  | Ada Moreau </admin/users/{ada}> this browser Collaboration platform | Unknown browser 127.0.0.1 | just now | just now |
connected-apps # Connected apps
  | Name, ID | Issuer | Used for | State | Last check | Changed | Actions
  | Collaboration platform </admin/connected-apps/platform> platform | https://provider.example | Sign-in, Threads | In use | Not checked yet | Set in the file |
  | Collaboration second </admin/connected-apps/second> second | https://provider.example | Sign-in, Threads | In use | Not checked yet | 15 min ago |
connected-apps/platform # Collaboration platform
  openid Know who you are when you sign in / profile See your name and the other public parts of your profile
  email See your e-mail address / offline_access Stay connected while you are away, until you disconnect
  platform_read_only Read what you can read on the platform, and change nothing
  Connections 2 </admin/connections?app=platform> All work
  Sign-ins 2 </admin/connected-apps/platform/activity?kind=sign_ins> 1 failed </admin/sign-ins?outcome=unsuccessful&period=day&app=platform> Last: just now
  Relay calls 2 </admin/connected-apps/platform/activity?kind=relay> 1 refused </admin/connected-apps/platform/activity?kind=refusals> Last: 16 min ago
connected-apps/platform/settings # Collaboration platform
  Defined in CONNECTED_APPS_FILE. To change it, edit the file, then send the process SIGHUP or restart it.
  ID: platform / Issuer: https://provider.example / Client ID: test-platform / Who may sign in: All users of the provider
  API base URL: https://platform.example / Client secret: Set in the file / Client authentication: client_secret_basic / Path of the current thread: /1/threads/current
connected-apps/platform/activity # Collaboration platform
  Refused 1 call by reports to Collaboration platform: rule assertUser </admin/audit?actor={reports}&from=2031-03-05T10:00:00.000Z&to=2031-03-05T11:00:00.000Z>
  Calls: Read the current thread: 1 refused by rule assertUser / Calls: Read the current thread: 2 succeeded
connected-apps/second # Collaboration second
  Change callback URLs </admin/connected-apps/second/settings#callback-title> / https://gatehouse.example/oauth/callback/second [Copy https://gatehouse.example/oauth/callback/second] this Gatehouse
  Change scopes </admin/connected-apps/second/settings#scopes-title>
  Connections 1 </admin/connections?app=second> All work / Sign-ins 1 </admin/connected-apps/second/activity?kind=sign_ins> Last: 13 min ago
  Relay calls 1 </admin/connected-apps/second/activity?kind=relay> Last: 16 min ago
connected-apps/second/settings # Collaboration second
  Exactly as registered at the provider. They must include the callback URL of this Gatehouse:
  [ callbackUrl=https://gatehouse.example/oauth/callback/second]
  Callback URL 2 / [ callbackUrl=] / Callback URL 3 / [ callbackUrl=] / Callback URL 4 / [ callbackUrl=]
  A pasted list becomes rows. Empty rows are left out.
  Users are asked to allow these. Before a scope is added, you see how many connections lack it.
  [*checkbox scope=platform_read_only] platform_read_only Read what you can read on the platform, and change nothing
  Other scopes / [text moreScopes=] / Separated by spaces, as the provider documents them.
  Name / [text name=Collaboration second] / The name that users see. / Issuer / [url issuer=https://provider.example]
  Exactly as the provider writes it. / [do=read_provider: Read provider settings] / Client ID / [text clientId=test-second]
  Client secret / [text clientSecret=] / Set today. Leave empty to keep it. / Client authentication
  [select tokenEndpointAuthMethod=] · *client_secret_basic Secret in a header (client_secret_basic) · client_secret_post Secret in the body (client_secret_post) · private_key_jwt Signed with a key of Gatehouse (private_key_jwt) · none None: public client (none)
  Who may sign in
  [radio signIn=] No users: the app is only for connecting / [*radio signIn=everyone] All users of the provider: with a public provider, anyone
  [radio signIn=claim] Users with one of these values in this claim: / Claim / [text signInClaim=] / Values / [text signInValues=]
  Separated by commas. Administrators can only come from an app in CONNECTED_APPS_FILE.
  API base URL of the platform / [url apiBaseUrl=https://platform.example] / Leave empty for an app without threads.
  Path of the current thread / [text threadPath=/1/threads/current]
  Discovery URL / [url discoveryUrl=] / Only if it is not below the issuer.
  Authorization endpoint / [url endpoints-authorization=] / Token endpoint / [url endpoints-token=]
  Revocation endpoint / [url endpoints-revocation=] / Introspection endpoint / [url endpoints-introspection=]
  Userinfo endpoint / [url endpoints-userinfo=] / End-session endpoint / [url endpoints-endSession=]
  Signing keys (JWKS) / [url endpoints-jwks=] / Member of token responses with the API base URL
  [select apiBaseUrlFrom-member=] · * none · instance_url instance_url · api_instance_url api_instance_url · rest_instance_url rest_instance_url · api_url api_url · api_domain api_domain · geolocation geolocation
  Only if the provider names one for each user. / Hosts that this member may name / [textarea apiBaseUrlFrom-hosts=]
  Such as api.example.com, or .example.com for every name below it. One per line. / Return URLs / [textarea returnUrls=]
  Where users may be sent after signing in, in addition to pages of this service. One per line.
  Extra authorization parameters / [textarea parameters=] / Protocol parameters are not allowed. One per line, as name=value.
  Resources / [textarea resources=]
  The APIs that access tokens are for, as absolute URIs (RFC 8707). Only if the provider requires them. One per line.
  Member with the account’s id / [text account-field=]
  For an app without ID tokens: the path of the account’s id in the response of this URL, such as id or data.user.id.
  URL of the account / [url account-url=] / Called with the access token when a user connects. Empty: the userinfo endpoint.
  Prompt / [text prompt=]
  What the provider asks each time: space-separated values such as consent or select_account, or off for none. Empty: consent, if a refresh token depends on it.
  Extra token parameters / [textarea tokenParameters=]
  Sent to the token endpoint with each code and each refresh token. Protocol parameters are not allowed. One per line, as name=value.
  Path of nested tokens / [text tokenPath=]
  Only if token responses have the tokens in a nested object, such as authed_user.
  Seconds that an access token lasts / [text accessTokenLifetimeSeconds=] / Only if the provider does not state it.
  [select refresh=] · * detected automatically · rotating each can be used once · reusable each can be used several times
  Pushed authorization requests (PAR) / [select par=] · *auto if the provider requires it · required always · off never
  Gatehouse sends the request to the provider directly, so no browser can read or change it. If required, the app does not work with a provider that does not support it.
  Tokens bound to a key (DPoP) / [select dpop=] · *auto if the provider requires it · required always · off never
  A stolen access token cannot be used without the key. If required, other tokens are refused.
  Calls a minute that the platform allows each user / [text rateLimit-perUserPerMinute=]
  Needed only if the responses of the platform do not state it. / Calls a minute that the platform allows the whole app
  [text rateLimit-perAppPerMinute=] / Needed only if the responses of the platform do not state it.
  [*checkbox providerSignOut=yes] Signing out here also signs out at the provider / Saving affects one connection.
  While disabled, users cannot sign in with the app, and its calls are refused. Connections stay as they are.
  Disable app… </admin/connected-apps/second/disable>
  Revokes 1 connection at the provider and deletes it here. Do this before you delete the app. See the connections </admin/connections?app=second>
  Disconnect everyone… </admin/connected-apps/second/disconnect-everyone>
connected-apps/second/activity # Collaboration second
  Signed in with Collaboration second / Connected app created / 10:01 UTC · admin token test · 127.0.0.1
  nightly made 1 call to Collaboration second </admin/audit?actor={nightly}&from=2031-03-05T10:00:00.000Z&to=2031-03-05T11:00:00.000Z>
connected-apps/second/check # Check of Collaboration second
  Not checked yet. A check makes the calls of a sign-in, without a user.
  Sign in at the provider as a user would, and see each step. Your own session does not change. The app is then connected for you, and replaces any connection of yours to it.
connections # Connections
  [select health=] · * Any health · reconnect_needed Reconnect needed · unverified Unverified
  [select scopes=] · * Any scopes · missing Some missing
  [Search]
  | User, App | Health | Account | Checked | Last used | Actions
  | Ada Moreau </admin/connections/{connection}> Collaboration platform | Active | admin@example.test | just now | just now |
connections/{uma}.platform # Uma Okafor, Collaboration platform
  Active user@example.test / Checked: 14 min ago / Last used: 6 min ago
  Connection ID: {connection} [Copy the connection ID]
  Disconnect… </admin/connections/{connection}/end>
connections?app=second # Connections
  This app has 1 connection. Disconnecting revokes it at the provider and deletes it here, regardless of the filters above.
  Disconnect everyone… </admin/connected-apps/second/disconnect-everyone>
connect-links # Connect links
  With a connect link, one user can connect one app once, within 30 minutes. Services create them.
  | User, App | Created by | State | Created | Expires | Actions
  | Uma Okafor </admin/users/{uma}> Collaboration second | nightly </admin/relay-tokens/{nightly}> | Open | 2 min ago | in 28 min |
bin # BIN data
  Source: banks-db 0.12.0 / Origin: Built in / As of: 16 July 2017 / Licence: CC BY 4.0 / Rows: 17,324
  The built-in data set is an example, so that a first lookup has a response. It is banks-db of July 2017, 90 % of its prefixes are of the United States, and it does not know type, brand, prepaid, and the telephone number and city of the bank.
  | American Express | | 8,926 51.5 % / | Discover | | 1 < 0.1 % / | United States | | 15,627 90.2 %
  | Türkiye | | 362 2.1 % / | 16 others | | 61 0.4 % / Working
  1 of 10,000. Resets on 1 April 2031. / 1,000 are reserved for users, each with up to 100 a day.
  Cache: 0 % of 1 lookups needed no call / | Data set | | 0 / | Cached response of the service | | 0
  | Service | | 1 / | Card network rules only | | 0 / | Not found | | 0 / | Monthly calls used up | | 0
  | Daily calls of a user used up | | 0 / | Service unavailable | | 0
  Bank names by prefix: banks-db 0.12.0 by Linda Rian and contributors (https://github.com/ramoona/banks-db), CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/); completed here with country facts and network rules.
  Country facts: world-countries 5.1 by Mohammed Le Doze and contributors (https://github.com/mledoze/countries), ODbL 1.0.
bin/import # Import BIN data
  The file is checked first. You can review what changes before you import it.
  When the source last changed the data. Pages show this date.
  Where the data comes from. Without it, the name of the file is shown. / The licence of the data. Without it, pages say that the file states none.
  For files in another format: the columns to use. / CSV, also gzipped, up to 64 MB.
relay-tokens # Relay tokens
  With a relay token, a back-end service calls the platform through Gatehouse, and never gets the tokens of users.
  [select scope=] · * All scopes · threads:read Read the current thread · api:call Call routes of platforms · bin:read Look up BINs · token:exchange Get users’ access tokens · connections:read See the state of connections · connect_links:create Create links with which users connect
  [select state=] · * Any state · active Active · expiring Expiring · expired Expired
  [Search]
  | Name, Apps | Scopes | Users, Proof | Last used | Expires | Actions
  | nightly </admin/relay-tokens/{nightly}> Collaboration platform, Collaboration second | Read the current thread, Look up BINs, Get users’ access tokens, See the state of connections, Create links with which users connect | 2 users Without proof | 2 min ago | in 9 days |
  | reports </admin/relay-tokens/{reports}> Collaboration platform | Read the current thread, Look up BINs, Get users’ access tokens, See the state of connections, Create links with which users connect | All users | 3 min ago | in 68 yr |
relay-tokens/{reports} # reports
  gthr_{reports}… Active / Users : All users / Expires: 31 January 2099, in 68 yr / Calls to the BIN lookup service: 500 a month
  Last used: 3 min ago from 127.0.0.1 / Bin calls per month: 500
  Calls: Read the current thread: 1 refused by rule assertUser
  Made 2 calls to Collaboration platform </admin/audit?actor={reports}&from=2031-03-05T10:00:00.000Z&to=2031-03-05T11:00:00.000Z>
  Calls: Look up BINs: 1 succeeded
  All processes refuse further calls with this token within a second. This cannot be undone.
relay-tokens/{nightly} # nightly
  gthr_{nightly}… Expiring / user@example.test </admin/users/{uma}> / not-seen-yet Not signed in yet / Networks: Any
  Expires: 14 March 2031, in 9 days / Calls to the BIN lookup service: All calls that are not reserved for users
  Also : Dangerous Name users without proof
relay-tokens/new # Create relay token
  The service that will use it. Users see this name on their connections.
  [*checkbox scopes=threads:read] Read the current thread
  [*radio users=none] No users: only service accounts and BIN lookups / [radio users=listed] Chosen users
  [radio users=all] All users / E-mail addresses or IDs. Gatehouse knows users once they have signed in.
  Such as 10.0.0.0/8. Leave empty to allow every address. / [*radio expiry=90] In 90 days
  The token works until the end of this day (UTC). / [checkbox assertUser=yes] Name users without proof
  Dangerous Anyone who has the token can act for all allowed users at any time, even while they are away.
  [checkbox fullScope=yes] Get the whole access token if the provider issues no narrower one
  Applies to exchanges that request fewer scopes than the user granted.
  [checkbox acceptIdTokens=yes] Accept ID tokens as proof of a user
  Applies to exchanges. The ID token of a sign-in, at most 10 minutes old, proves its user until the user signs out here.
  Leave empty to allow all calls that are not reserved for users.
relay-tokens/{nightly}/edit # Edit nightly
  [*checkbox apps=second] Collaboration second / [*radio users=listed] Chosen users
  [textarea listed=] user@example.test not-seen-yet
  [*radio expiry=keep] As before: 14 March 2031
  [*checkbox assertUser=yes] Name users without proof
relay-tokens/{nightly}/rotate # Rotate the secret of nightly
  The new secret is shown once. Both work for the time that you choose, and you can end the current one earlier.
  Calls with either secret are allowed until then. Use 0 if the secret may have leaked: it then expires at once. At most 720.
policy # Test a call
  See how each rule would judge the call of a service. Nothing is sent.
  E-mail address or ID. Leave empty for a service account. / IP address of the service
  [select proof=] · *assertion User assertion · id_token ID token, for an access token · none None: named without proof
  [checkbox narrowingUnavailable=yes] The call requests fewer scopes, and the provider issues no narrower token
  Applies to access tokens only.
  The result appears here: each rule with its result, and the call in curl, TypeScript and Python.
relay-tokens/{nightly}/test # nightly
  [select app=] · platform Collaboration platform · second Collaboration second
  [select serviceAccount=] · * None · {account} Batch
policy?token={reports}&scope=threads:read&app=platform&user={uma}&address=127.0.0.1&proof=assertion # Test a call
  ## Allowed / Passed: The relay token has not expired. expiresAt
  Passed: The call comes from an allowed network. networks
  Passed: The relay token has the scope for this action. scopes
  Passed: The relay token may use the connected app. apps
  – Does not apply: The service account exists and belongs to the app. serviceAccount
  – Does not apply: The API token was entered for the present platform of the app. serviceAccount
  – Does not apply: The relay token accepts ID tokens as proof of a user. acceptIdTokens
  – Does not apply: The relay token may name users without proof. assertUser
  Passed: The relay token may act for the user. users / Passed: The user exists. users
  Passed: The user is not disabled. users
  – Does not apply: The relay token may get the whole access token. fullScope
  ASSERTION is the user assertion that your service gets with the user’s request, from GET /session/verify. It is valid for 60 seconds.
  Sign in here as the user. The line first asks for the value of the cookie gatehouse.{port}, which the developer tools of the browser show. Keep it as secret as a password.
policy?token={reports}&scope=token:exchange&app=second&user=nobody@example.test&address=10.0.0.1&proof=none
  No user has this e-mail address. Gatehouse knows users once they have signed in. <#user>
service-accounts # Service accounts
  A platform API token for calls without a user. Gatehouse tries it on the platform, stores it encrypted and never shows it again.
  | Name, App | ID | Created | API token set | Actions
  | Batch Collaboration platform | {account…} [Copy the account ID] | 9 min ago | 9 min ago |
service-accounts/new # Create service account
  Gatehouse tries it on the platform before saving it.
service-accounts/{account}/replace # Replace the API token of Batch
  Create a new API token on the platform first. The current token is used until you save.
webhooks # Webhooks
  Gatehouse sends your programs signed messages about connections, with up to eight attempts each.
  [select event=] · * All events · connection.created Connection created · connection.reconnect_needed Reconnect needed · connection.recovered Connection works again · connection.removed Connection removed · connection.scopes_missing Connection lacks scopes
  [select state=] · * Any state · active Active · failing Failing · disabled Disabled
  [Search]
  | URL, Events | State | Last response | Last sent | Test | Actions
  | https://receiver.example/hook </admin/webhooks/{webhook}> Connection removed | Active | 204 | 1 min ago |
webhooks/new # Create webhook
  [*checkbox events=connection.created] Connection created
  [*checkbox events=connection.scopes_missing] Connection lacks scopes
webhooks/{webhook}/messages/{message} # Test message Delivered
  204 1 min ago by an administrator / The response has no body.
  { "type": "webhook.test", "timestamp": "2031-03-05T10:15:00.000Z", "data": { "webhook": "{webhook}" } }
  webhook-id: {message} and the body, which is sent without line breaks, are the same in every attempt. The time and the signature differ.
sign-ins # Sign-ins
  [select outcome=] · * Any result · succeeded Succeeded · unsuccessful Refused or failed · refused Refused · failed Failed · open No response
  [select app=] · * All apps · platform Collaboration platform · second Collaboration second
  [select cause=] · * Any cause · access_denied The user or their organization did not consent.
  [select period=] · * Any time · hour Last hour · day Last 24 hours · week Last 7 days · month Last 30 days
  User [text user=] / From (UTC) [date from=] / To (UTC) [date to=]
  The last 30 days: at most the newest 200 failures, and the newest 200 sign-ins without a response.
  | The user or their organization did not consent. </admin/sign-ins/{signIn}> | Collaboration platform | – | 1 <?app=platform&cause=access_denied> | 12 min ago
  | Reference | Result | Cause | User, App | Started
  | {reference} </admin/sign-ins/{reference}> | Signed in | | Ada Moreau </admin/users/{ada}> Collaboration platform | just now
  | {reference} </admin/sign-ins/{signIn}> | Refused | The user or their organization did not consent. | Unknown Collaboration platform | 12 min ago
sign-ins?q=nobody@example.test # Sign-ins
  References have 8 characters and are kept for 30 days. Search the audit trail </admin/audit?q=nobody%40example.test>
sign-ins/{signIn} # Sign-in {reference}
  Refused Collaboration platform, 5 March 2031 at 10:04 UTC
  If the user chose so, there is nothing to do. If no user can consent, the provider’s administrator has to allow this app first.
  Callback URL sent: https://gatehouse.example/oauth/callback/platform
  Sent to the identity provider: passed https://gatehouse.example/oauth/callback/platform is in the app’s list, character by character 10:04:00 UTC
  The user or the provider did not consent: failed access_denied 10:04:00 UTC / 11 steps not reached
audit?to=2031-03-05T10:13:00Z # Audit trail
  Who did what, when and from where. Entries cannot be changed.
  | Event | Time | Actor, Address | Target, For | Details
  | Relay used by a service | 3 min ago | reports <?actor={reports}> 127.0.0.1 | – |
  | Relay call refused rule assertUser | 4 min ago | reports <?actor={reports}> 127.0.0.1 | Collaboration platform <?target=platform> For Uma Okafor <?target={uma}> |
  Details of Relay call refused / Time: 5 March 2031 at 10:12 UTC / Outcome: refused / rule: assertUser
  | Sign-in refused | 12 min ago | Not signed in 127.0.0.1 | Collaboration platform <?target=platform> |
  Outcome: refused
  | Storage found empty | 16 min ago | Gatehouse itself | – |
keys # Keys
  Keys that encrypt stored records, and signing keys. The keys themselves are never shown.
  | {kid} | Encrypts | 16 min ago | 18 | admin tokens: 2, connect links: 1, apps: 1, connections: 3, signing keys: 1, relay tokens: 2, service accounts: 1, ID tokens of sessions: 3, sessions: 3, webhooks: 1
  Counted just now. 1 process is running. / Create a key: npm run -s gatehouse -- keys generate
  One process: put it first in ENCRYPTION_KEYS, before the old key, and restart. Several processes: first put it last and restart all; then move it to the front and restart all again.
  Encrypt all records again, with the button that this page then shows, or with npm run gatehouse -- keys rotate.
  Remove the old key from ENCRYPTION_KEYS, and restart. Store a copy of it somewhere safe for as long as you have backups that need it.
  With these keys, Gatehouse signs user assertions for back-end services and authenticates to providers. The public keys are at /.well-known/jwks.json </.well-known/jwks.json>. A new key is created every 30 days.
  | {thumbprint} | Signs | 6 min ago | 5 March 2031 at 10:10 UTC
admin-tokens # Admin tokens
  With an admin token, a program uses the HTTP API </docs> as an administrator. To replace one, create another, give it to the program, and revoke the old one.
  [select scope=] · * Any permissions · read Read · write Read and change
  | Name | ID | Permissions | Created | Last used | Expires | Actions
  | terraform | {terraform…} [Copy the token ID] | Read | 7 min ago | Never | in 90 days |
  | test | {test…} [Copy the token ID] | Read and change | 16 min ago | just now | in 44 min |
admin-tokens/new # Create admin token
  What the token is for. / [select scope=] · *read Read · write Read and change / [*radio expiry=90] In 90 days
search?q=second # Results for “second”
  Collaboration second </admin/connected-apps/second> second
  second, by nightly </admin/connect-links?q={link}> {uma}
search?q=hook # Results for “hook”
  https://receiver.example/hook </admin/webhooks/{webhook}> {webhook} / Webhooks </admin/webhooks>
search?q=nightly # Results for “nightly”
  nightly </admin/relay-tokens/{nightly}> gthr_{nightly} / second, by nightly </admin/connect-links?q={link}> {uma}
search?q=nobody # Results for “nobody”
  No results.
  Search for the reference of an error page, an e-mail address, any ID, or the beginning of a user’s name. For tokens, use the first 16 characters. The rest is secret, and is never searched.
search # Search
  Enter a search text in the field above.
register-app?preset=auth0 # Register an app
  A refresh token needs offline_access and "Allow Offline Access" in the settings of the API. Source <https://auth0.com/docs/refresh-token>
  New applications authenticate with the secret in the body. Not confirmed.
`;

test.each(parseTable(PAGES))('the page %s', (path, facts) => expectFacts(path, facts));

/** Before a change that cannot be undone: all of its words. */
const QUESTIONS = `
users/{uma}/sign-out # Sign out Uma Okafor?
  All sessions of this user end at once. They can sign in again.
users/{uma}/disable # Disable Uma Okafor?
  All sessions of this user end, services can no longer act for them, and they cannot sign in. Connections stay as they are. You can enable the user again.
users/{ada}/disable # Disable Ada Moreau?
  All sessions of this user end, services can no longer act for them, and they cannot sign in. Connections stay as they are. You can enable the user again. This is your own account. You will be signed out, and cannot sign in until another administrator enables you.
sessions/{session}/end # End the session of Uma Okafor, unknown browser?
  Pages that are open there stop working. Users can sign in again.
sessions/{ownSession}/end # End the session of Ada Moreau, unknown browser?
  Pages that are open there stop working. Users can sign in again. This is the browser that you are using: you will be signed out.
sessions/end?id={session}&id={ownSession} # End 2 sessions?
  Pages that are open there stop working. Users can sign in again. One of them is this browser: you will be signed out. - Uma Okafor, unknown browser - Ada Moreau, unknown browser
connected-apps/second/disable # Disable Collaboration second?
  Users cannot sign in with the app, and its calls are refused. Connections stay as they are. You can enable it again.
connected-apps/second/delete # Delete the app Collaboration second?
  Users are connected with this app. Disconnect everyone first. Users can no longer sign in or connect with this app. The secret is deleted here. If Gatehouse registered the app at the provider, that registration is deleted, too. Otherwise, delete it there yourself. This cannot be undone. Type “Collaboration second” to confirm
connected-apps/second/disconnect-everyone # Disconnect everyone from Collaboration second?
  1 connection will be revoked at the provider and deleted here, in the background. This cannot be undone. To use the app again, every user must connect again. Type “Collaboration second” to confirm
connections/{uma}.second/end # Disconnect Collaboration second from Uma Okafor?
  Disconnecting revokes the tokens at the provider and deletes them here. This cannot be undone. Services can no longer act for the user with this app until the user connects again.
connections/end?id={uma}.second&id={uma}.platform # Disconnect 2 connections?
  Disconnecting revokes the tokens at the provider and deletes them here. This cannot be undone. Services can no longer act for the user with this app until the user connects again. - Uma Okafor, Collaboration second - Uma Okafor, Collaboration platform
connect-links/{link}/revoke # Revoke the connect link second for {uma}?
  The link can no longer be used. The service can create another one. This cannot be undone.
relay-tokens/{nightly}/revoke # Revoke the relay token nightly?
  All processes refuse further calls within a second. Connect links that the token created no longer work. This cannot be undone.
relay-tokens/revoke?id={nightly}&id={reports} # Revoke 2 relay tokens?
  All processes refuse further calls within a second. Connect links that the token created no longer work. This cannot be undone. - nightly - reports
service-accounts/{account}/remove # Delete the service account Batch?
  Relay calls for it are refused. Its API token is deleted here and stays valid on the platform. This cannot be undone.
webhooks/{webhook}/remove # Delete the webhook https://receiver.example ({webhook…})?
  Deleting the webhook also deletes its messages, including pending ones. This cannot be undone.
admin-tokens/{terraform}/revoke # Revoke the admin token terraform?
  Every further call is refused. This cannot be undone.
admin-tokens/revoke?id={terraform}&id={test} # Revoke 2 admin tokens?
  Every further call is refused. This cannot be undone. - terraform - test
keys/rotate-encryption # Encrypt all records with {kid}?
  The 0 records encrypted by an older key are encrypted again. Gatehouse keeps working, and users notice nothing. The keys themselves do not change. Older keys can be removed afterwards.
`;

test.each(parseTable(QUESTIONS))('the question of %s has these words', async (path, words) => {
  const page = await open(path);
  const withoutControls = linesOf(page).filter((line) => !/^(form:|\[|Cancel|$)/.test(line));
  const start = withoutControls.findIndex((line) => line.startsWith('# '));
  const [heading, ...text] = withoutControls.slice(start);
  expect([page.status, heading, text.join(' ')]).toEqual([200, ...words]);
});

test.each([
  ['search?q=uma%20o', 'users/{uma}'],
  ['search?q=reports', 'relay-tokens/{reports}'],
  ['search?q={session}', 'users/{uma}'],
  ['search?q={link}', 'connect-links?q={link}'],
  ['search?q=terraform', 'admin-tokens?q={terraform}'],
  ['search?q=batch', 'service-accounts?q={account}'],
])('%s leads to %s', async (search, path) => {
  expect((await open(search)).url).toBe(`${filledSite.site.url}/admin/${filledSite.pathOf(path)}`);
});

test.each([
  ['policy', 'Relay tokens, Service accounts, Webhooks, Test a call'],
  ['bin/import', 'Connected apps, Connections, Connect links, BIN data'],
  ['audit?q=nobody', 'Sign-ins, Audit'],
  ['keys', 'Keys, Admin tokens'],
])('the section of %s has the pages %s', async (path, names) => {
  // The tabs are the first list of the page.
  const [tabs = ''] = /(?<=\n)(- .*\n)+/.exec(linesOf(await open(path)).join('\n')) ?? [];
  const tabNames = [...tabs.matchAll(/- (.*) <.*\n/g)].map(([, name]) => name);
  expect(tabNames.join(', ')).toBe(names);
});

test('the audit trail has a filter for each event', async () => {
  const options = Object.entries(AUDIT_EVENTS).map(([event, words]) => ` · ${event} ${words}`);
  expect(linesOf(await open('audit'))).toContain(`[select event=] · * All events${options.join('')}`);
});

test('lists and filters have this many rows', async () => {
  const counts = {
    ...{ users: 2, sessions: 3, connections: 3, webhooks: 1, 'users?q=uma%20o': 1, 'connected-apps': 2 },
    ...{ 'connections?app=second': 1, 'connect-links': 1, 'relay-tokens': 2, 'relay-tokens?state=expiring': 1 },
    ...{ 'relay-tokens?app=second': 1, 'relay-tokens?scope=bin:read': 2, 'service-accounts': 1, 'sign-ins': 4 },
    ...{
      'webhooks/{webhook}': 1,
      'sign-ins?outcome=unsuccessful': 1,
      'audit?to=2031-03-05T10:13:00Z': 15,
      'audit?actor={uma}': 4,
    },
    ...{ 'audit?event=connect_link.created': 1, 'audit?target={webhook}': 2, 'admin-tokens': 2 },
    'admin-tokens?scope=write': 1,
  };
  for (const [path, count] of Object.entries(counts)) {
    const text = linesOf(await open(path)).join('\n');
    expect([path, /^1–(\d+) of \1 CSV </m.exec(text)?.[1]]).toEqual([path, String(count)]);
  }
});

test.each([
  ['users', 'Name, e-mail address or ID'],
  ['sessions', 'Name, e-mail address or ID of the user'],
  ['connected-apps', 'Name, ID or issuer'],
  ['connections', 'Name or e-mail of the user'],
  ['connect-links', 'App, user ID or relay token'],
  ['relay-tokens', 'Name or ID'],
  ['service-accounts', 'Name, app or ID'],
  ['webhooks', 'URL or ID'],
  ['admin-tokens', 'Name or ID'],
  ['sign-ins', 'Reference or e-mail address'],
])('%s are searched by %s, and none matches "nobody"', async (path, searchedFields) => {
  const items = path === 'sign-ins' ? path : path.replace('-', ' ');
  const facts = [`Search by: ${searchedFields}`, `No ${items} match`, `Clear filters </admin/${path}>`];
  expectLines(linesOf(await open(`${path}?q=nobody`)), facts);
});

test.each([
  ['users', 'Open, Audit entries, Sign out everywhere…, Disable…, Delete…', ''],
  ['sessions', 'Open user, End session…', 'End sessions…'],
  ['connected-apps?q=platform', 'Open, Connections, Disconnect everyone…', ''],
  ['connected-apps?q=second', 'Open, Connections, Disable…, Disconnect everyone…, Delete…', ''],
  ['connections', 'Open, Open user, Disconnect…', 'Disconnect…'],
  ['connect-links', 'Open user, Revoke…', 'Revoke…'],
  ['relay-tokens', 'Open, Test a call, Revoke…', 'Revoke…'],
  ['service-accounts', 'Replace API token, Delete…', ''],
  ['webhooks', 'Open, Delete…', 'Delete…'],
  ['admin-tokens', 'Audit entries, Revoke…', 'Revoke…'],
])('%s: a row has the actions %s, and the selected rows %s', async (path, rowActions, selectionAction) => {
  const text = linesOf(await open(path)).join('\n');

  const [, menu = ''] = /^Actions for .+((?:\n- .+)+)/m.exec(text) ?? [];
  const actions = [...menu.matchAll(/\n- ([^<\n]+?)(?: <.*)?$/gm)].map(([, action]) => action);
  expect(actions.join(', ')).toBe(rowActions);
  expect(/Selected rows \[(.+)\]/.exec(text)?.[1] ?? '').toBe(selectionAction);
});

/** After `#`, the name of the file; below, the column heads and the first row, without quotation marks. */
const EXPORTS = `
users # users
  Name,E-mail address,ID,State,Last sign-in,First sign-in,Issuer,Subject
  Ada Moreau,admin@example.test,{ada},active,2031-03-05T10:16:00.000Z,2031-03-05T10:16:00.000Z,https://provider.example,sbx-00u3
sessions # sessions
  User,E-mail address,User ID,Browser,Address,Signed in,Last seen,App
  Ada Moreau,admin@example.test,{ada},,127.0.0.1,2031-03-05T10:16:00.000Z,2031-03-05T10:16:00.000Z,Collaboration platform
connected-apps?q=second # connected-apps
  Name,ID,Issuer,Client ID,Usable,Last check,First failure,Changed
  Collaboration second,second,https://provider.example,test-second,true,,,2031-03-05T10:01:00.000Z
connections?app=second # connections
  User,E-mail address,User ID,App,ID,Health,Cause,Account,Scopes,Missing scopes,Connected,Checked,Last used
  Uma Okafor,user@example.test,{uma},Collaboration second,{connection},active,,user@example.test,openid profile email offline_access platform_read_only,,2031-03-05T10:03:00.000Z,2031-03-05T10:03:00.000Z,2031-03-05T10:03:00.000Z
connect-links # connect-links
  ID,App,User ID,Created by,Scopes,State,Created,Expires
  {link},second,{uma},nightly,openid profile email offline_access platform_read_only,open,2031-03-05T10:14:00.000Z,2031-03-05T10:44:00.000Z
relay-tokens # relay-tokens
  Name,ID,Apps,Scopes,Users,Last used,Last used from,Expires,State,Idle scopes
  nightly,{nightly},Collaboration platform, Collaboration second,threads:read bin:read token:exchange connections:read connect_links:create,{uma} not-seen-yet,2031-03-05T10:14:00.000Z,127.0.0.1,2031-03-14T10:00:00.000Z,expiring,
service-accounts # service-accounts
  Name,ID,Created,API token set,App
  Batch,{account},2031-03-05T10:07:00.000Z,2031-03-05T10:07:00.000Z,Collaboration platform
webhooks # webhooks
  URL,ID,Events,State,Failing since,Last response,Last sent
  https://receiver.example/hook,{webhook},connection.removed,active,,204,2031-03-05T10:15:00.000Z
webhooks/{webhook} # webhook-messages
  ID,Event,State,Last response,Attempts,Created,Next attempt
  {message},webhook.test,delivered,204,1,2031-03-05T10:15:00.000Z,
sign-ins?outcome=unsuccessful # sign-ins
  Reference,Started,Result,Cause,App,E-mail address,User ID,Browser,Address
  {reference},2031-03-05T10:04:00.000Z,refused,The user or their organization did not consent.,Collaboration platform,,,,127.0.0.1
audit?event=relay.refused # audit
  Time,Event,Actor,Actor ID,Target,Target ID,User,Outcome,Code,Address,Request ID,Details
  2031-03-05T10:12:00.000Z,Relay call refused,reports,{reports},Collaboration platform,platform,Uma Okafor,refused,,127.0.0.1,{uuid},rule: assertUser; scope: threads:read; onceAnHour: true
admin-tokens # admin-tokens
  Name,ID,Permissions,Created,Last used,Expires,State
  terraform,{terraform},read,2031-03-05T10:09:00.000Z,,2031-06-03T10:00:00.000Z,active
`;

test.each(parseTable(EXPORTS))(
  'the export of %s has this head and first row',
  async (path, [heading = '', ...rows]) => {
    const separator = path.includes('?') ? '&' : '?';
    const { headers, body } = await open(`${path}${separator}format=csv`);

    const fileName = heading.replace('# ', '');
    expect(headers.get('content-disposition')).toBe(`attachment; filename="${fileName}.csv"`);
    const lines = filledSite.clean(body.replaceAll(/[\ufeff"\r]/g, '')).split('\n');
    expect(lines.slice(0, 2)).toEqual(rows);
  },
);

/** Pages half a year later, with a disabled user, a connection that needs reconnecting, and a failing webhook. */
const HALF_A_YEAR_LATER = `
?period=day # Overview
  Sign-ins 1 </admin/audit?event=sign_in.succeeded&from=2031-09-20T11%3A00%3A00.000Z> ▲ from 0
  Users 2 </admin/users> 1 session </admin/sessions>
  Connections 3 </admin/connections> 2 active </admin/connections> 1 reconnect needed </admin/connections?health=reconnect_needed>
  BIN calls 0 </admin/bin> of 10,000 this month
  1 connection to Collaboration platform needs reconnecting The provider has ended this connection. (invalid_grant)
  Show: 1 connection to Collaboration platform needs reconnecting </admin/connections?app=platform&health=reconnect_needed>
  Webhook receiver.example is failing Last response: 500 · first failed 7 mo ago
  Client secret of Collaboration second is 200 days old Create a new one at the provider and enter it here.
  No sign-ins were refused or failed in this time range.
users # Users
  | Ada Moreau </admin/users/{ada}> you admin@example.test | {ada…} [Copy the user ID] | Active | just now | 7 mo ago |
  | Uma Okafor </admin/users/{uma}> user@example.test | {uma…} [Copy the user ID] | Disabled | 7 mo ago | 7 mo ago |
  [ Enable Uma Okafor ]
users/{uma} # Uma Okafor
  Disabled user@example.test / Disabled: 7 mo ago
  | Collaboration platform </admin/connections/{connection}> | Reconnect needed The provider has ended this connection. (invalid_grant) | user@example.test | 7 mo ago | 7 mo ago |
  | Collaboration second </admin/connections/{connection}> | Not checked since 5 Mar 2031, 10:03 UTC | user@example.test | 7 mo ago | 7 mo ago |
  Not signed in anywhere. / User disabled / Signed in with Collaboration second
  reports made 2 calls to Collaboration platform </admin/audit?actor={reports}&from=2031-03-05T10:00:00.000Z&to=2031-03-05T11:00:00.000Z>
  The user is disabled. They cannot sign in, and services cannot act for them. / [ Enable user ]
connected-apps # Connected apps
  | Collaboration platform </admin/connected-apps/platform> platform | https://provider.example | Sign-in, Threads | In use | Not checked yet | Set in the file |
  | Collaboration second </admin/connected-apps/second> second | https://provider.example | Sign-in, Threads | Old secret | Not checked yet | 7 mo ago |
connected-apps/platform # Collaboration platform
  Connections 2 </admin/connections?app=platform> 1 needs reconnecting </admin/connections?app=platform&health=reconnect_needed>
connected-apps/second # Collaboration second
  In useOld secret Last check: Not checked yet / The client secret was set 200 days ago. Create a new one at the provider and enter it here </admin/connected-apps/second/settings#clientSecret>.
connected-apps/second/settings # Collaboration second
  Set 200 days ago. Leave empty to keep it.
connections?health=reconnect_needed # Connections
  1–1 of 1 CSV </admin/connections?health=reconnect_needed&format=csv>
  | Uma Okafor </admin/connections/{connection}> Collaboration platform | Reconnect needed The provider has ended this connection. (invalid_grant) | user@example.test | 7 mo ago | 7 mo ago |
  Copy reconnect link </admin/connections/{connection}#reconnect>
relay-tokens?state=expired # Relay tokens
  1–1 of 1 CSV </admin/relay-tokens?state=expired&format=csv>
  | nightly </admin/relay-tokens/{nightly}> Collaboration platform, Collaboration second | Read the current thread, Look up BINs, Get users’ access tokens, See the state of connections, Create links with which users connect | 2 users Without proof | 7 mo ago | Expired |
relay-tokens/{nightly} # nightly
  gthr_{nightly}… Expired
  Scopes without effect: Get users’ access tokens, See the state of connections, Create links with which users connect. None of its users is enabled and has signed in.
  user@example.test </admin/users/{uma}> Disabled / Expires: 14 March 2031, 6 mo ago / Relay token created
service-accounts # Service accounts
  | Batch Collaboration platform | {account…} [Copy the account ID] | 7 mo ago | 7 mo ago Old |
webhooks?state=failing # Webhooks
  1–1 of 1 CSV </admin/webhooks?state=failing&format=csv>
  | https://receiver.example/hook </admin/webhooks/{webhook}> Connection removed | Failing since 5 Mar | 500 | 7 mo ago |
webhooks/{webhook} # https://receiver.example/hook
  Failing since 5 Mar / Last response: 500, 7 mo ago / No messages yet
  Each event of a connection sends one. Send a test message to try the receiver.
admin-tokens # Admin tokens
  | terraform | {terraform…} [Copy the token ID] | Read | 7 mo ago | Never | Expired |
  | test | {test…} [Copy the token ID] | Read and change | 7 mo ago | 7 mo ago | Expired |
connect-links # Connect links
  No connect links
  A service with the scope connect_links:create sends a user a link when it needs a connection.
sessions # Sessions
  1–1 of 1 CSV </admin/sessions?format=csv>
sign-ins # Sign-ins
  1–1 of 1 CSV </admin/sign-ins?format=csv>
`;

test('half a year later, pages show expired tokens, old secrets and past times', async () => {
  const { api, storage, receiver, site, pathOf } = filledSite;
  receiver.setResponse(500);
  await api.call('POST', pathOf('/webhooks/{webhook}/test'));
  await api.call('POST', pathOf('/users/{uma}/disable'));
  await storage.changeGrant(pathOf('{uma}'), () => ({ failure: GRANT_REFUSED }));
  // A scheduled task would update the index and remove the session, but at any time.
  await createConnectionIndex({ store: storage.store, clock: Date.now }).update(
    await storage.readGrant(pathOf('{uma}')),
  );
  await api.call('DELETE', pathOf('/sessions/{ownSession}'));
  advanceBy(200 * DAY_MS);
  const { agent } = await signIn(site, 'admin@example.test', { path: '/sign-in?app=platform' });
  for (const [path, facts] of parseTable(HALF_A_YEAR_LATER)) await expectFacts(path, facts, agent);
  // The calls on the page of a user come from the audit trail. Other timelines have sums, which are stored for 31 days.
  for (const path of ['connected-apps/second/activity', 'relay-tokens/{nightly}'])
    expect((await open(path, agent)).body).not.toMatch(/made \d+ call/i);
});

const GRANT_REFUSED: RefreshFailure = {
  ...{ kind: 'reconnect_needed', cause: 'grant_refused', reason: 'invalid_grant' },
  ...{ since: Date.parse(inDays(0)), failures: 1, retryAt: 0 },
};
