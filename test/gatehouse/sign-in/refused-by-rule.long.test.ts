/** A user whom a rule refuses, or who is no administrator: the sign-in record says what was seen of the claim. */
import { describe, expect, test } from 'vitest';
import { getJson } from '../../support/gatehouse.ts';
import { type ProviderSite, startWithProvider } from '../../support/provider-site.ts';
import type { Json } from '../../support/providers/profile.ts';

const ROOT = { sub: 'root' };
/** Values of claims that no record may show. */
const PRIVATE = 'private-value';

interface Recorded {
  outcome: string;
  cause: { code: string; text: string; advice: string; field: string } | null;
  permitted: { result: string; detail: string | null };
  text: string;
}

/** Reads the latest sign-in of this user as an administrator, who signs in with these claims. */
async function recordedFor(site: ProviderSite, subject: string, administrator: Json): Promise<Recorded> {
  const { agent } = await site.signIn(administrator);
  const { json } = await getJson(agent, `${site.url}/admin/api/sign-ins`);
  const items = json.items as { id: string; user: { name: string } }[];
  const latest = items.find(({ user }) => user?.name === subject);
  const { json: record } = await getJson(agent, `${site.url}/admin/api/sign-ins/${latest?.id}`);
  const steps = record.steps as { name: string; result: string; detail: string | null }[];
  const { result = '', detail = '' } = steps.find(({ name }) => name === 'permitted') ?? {};
  const html = await agent.get(`${site.url}/admin/sign-ins/${latest?.id}`);
  return {
    ...(record as unknown as Recorded),
    permitted: { result, detail },
    text: JSON.stringify(record) + html.body,
  };
}

describe('R141 the rule of the app', () => {
  const rules: [
    preset: string,
    claim: string,
    value: string,
    administrator: Json,
    refusals: [Json, string, string][],
  ][] = [
    [
      'keycloak',
      '/realm_access/roles',
      'gatehouse-user',
      { realm_access: { roles: ['offline_access', 'gatehouse-user'] } },
      [
        [{}, 'claim_absent', 'is absent'],
        [{ realm_access: { roles: ['Gatehouse-User', PRIVATE] } }, 'claim_other_case', 'upper and lower case'],
        [{ realm_access: { roles: [PRIVATE] } }, 'claim_other_values', 'none of the values'],
        [
          { resource_access: { gatehouse: { roles: ['gatehouse-user', PRIVATE] } } },
          'claim_absent',
          '“/resource_access/gatehouse/roles” has a value of the rule',
        ],
        [{ realm_access: { roles: { x: PRIVATE } } }, 'claim_other_form', 'has a form that the rule cannot use'],
      ],
    ],
    [
      'entra',
      'groups',
      '02bd9fd6-8f93-4758-87c3-1fb73740a315',
      { groups: ['02bd9fd6-8f93-4758-87c3-1fb73740a315'] },
      [
        [
          {
            _claim_names: { groups: 'src1' },
            _claim_sources: { src1: { endpoint: `https://graph.windows.net/${PRIVATE}/getMemberObjects` } },
          },
          'claim_left_out',
          'left out by the provider',
        ],
        [{ hasgroups: true, roles: [PRIVATE] }, 'claim_left_out', 'left out by the provider'],
        [{ groups: ['02BD9FD6-8F93-4758-87C3-1FB73740A315'] }, 'claim_other_case', 'upper and lower case'],
      ],
    ],
    [
      'okta',
      'realm.groups',
      'staff',
      { 'realm.groups': 'staff' },
      [
        [{ realm: { groups: [PRIVATE] } }, 'claim_absent', '“/realm/groups” has this name in another place'],
        [{ 'realm.groups': `${PRIVATE} staff` }, 'claim_joined', 'only a part'],
        [{ 'realm.groups': ['/staff'] }, 'claim_alike', 'spaces or in a slash'],
      ],
    ],
  ];

  test.each(rules)('%s, %s: what was seen is in the record', async (preset, claim, value, administrator, refusals) => {
    const site = await startWithProvider(
      preset,
      { ADMIN_CLAIM: 'sub', ADMIN_VALUES: ROOT.sub },
      { signIn: { allow: { claim, values: [value] } } },
    );
    for (const [position, [claims, code, words]] of refusals.entries()) {
      const person = `Person ${position}`;
      const { page } = await site.signIn({ sub: person, name: person, ...claims });
      expect([page.status, page.body.includes('may not sign in here')]).toEqual([403, true]);
      expect(page.body).not.toContain(claim);
      const { cause, outcome, permitted, text } = await recordedFor(site, person, { ...ROOT, ...administrator });
      expect({ outcome, code: cause?.code, field: cause?.field }).toEqual({
        outcome: 'refused',
        code,
        field: 'signIn',
      });
      expect(permitted.result).toBe('failed');
      for (const shown of [cause?.text, permitted.detail]) {
        expect(shown).toContain(`the claim “${claim}”`);
        expect(shown).toContain(words);
      }
      expect(text).not.toContain(PRIVATE);
    }
  });

  test('a nested claim is found in userinfo, beside one in the ID token', async () => {
    const rule = { signIn: { allow: { claim: '/realm_access/roles', values: ['gatehouse-user'] } } };
    const site = await startWithProvider('keycloak', {}, rule);
    const userinfo = { realm_access: { roles: ['gatehouse-user'] } };
    const { session } = await site.signIn({ realm_access: { verify_caller: true } }, userinfo);
    expect(session.signedIn).toBe(true);
    expect((await site.signIn({ realm_access: { roles: [] } }, userinfo)).session.signedIn).toBe(false);
  });
});

describe('R19 an administrator by e-mail address', () => {
  const ADDRESSES = { ADMIN_CLAIM: 'email', ADMIN_VALUES: 'ada@example.com, root@example.com' };
  const ADMINISTRATOR = { ...ROOT, email: 'root@example.com', email_verified: true };

  test.each<[preset: string, claims: Json, userinfo: Json, words: string]>([
    ['google', { email: 'ada@example.com', email_verified: false }, {}, 'email_verified is not true'],
    ['google', { email: 'ada@example.com', email_verified: 'true' }, {}, 'is a text or a number, not true'],
    ['entra', { email: 'ada@example.com', xms_edov: true }, {}, 'without email_verified'],
    ['entra', { email: 'ada@example.com', xms_edov: '1' }, {}, 'without email_verified'],
    [
      'keycloak',
      { email: 'ada@example.com' },
      { email: 'bo@example.com', email_verified: true },
      'without email_verified',
    ],
    ['google', { email: 'bo@example.com', email_verified: true }, {}, 'none of the values'],
    ['google', { email: undefined, preferred_username: 'ada@example.com' }, { email: undefined }, 'is absent'],
  ])('%s: is not made by %j and userinfo %j, and the record says why', async (preset, claims, userinfo, words) => {
    const site = await startWithProvider(preset, ADDRESSES);
    const { agent, session } = await site.signIn({ sub: 'ada', name: 'Ada', ...claims }, userinfo);
    expect(session).toMatchObject({ signedIn: true, user: { admin: false } });
    expect((await agent.get(`${site.url}/admin`)).status).toBe(403);
    const { outcome, cause, permitted } = await recordedFor(site, 'Ada', ADMINISTRATOR);
    expect([outcome, cause, permitted.result]).toEqual(['signed_in', null, 'passed']);
    expect(permitted.detail).toContain('no administrator: the claim “email”');
    expect(permitted.detail).toContain(words);
    const { permitted: ofAdministrator } = await recordedFor(site, 'Ada Quill', ADMINISTRATOR);
    expect(ofAdministrator).toEqual({ result: 'passed', detail: null });
  });
});
