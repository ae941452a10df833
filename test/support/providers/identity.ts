/**
 * The behaviour of identity providers. The presets name the source of each fact that a setting depends on. Unconfirmed
 * facts are simulated as assumed.
 */
import { always, discoveryAt, type Profile, RS256, requestsScope, standardTokens } from './profile.ts';

const TENANT = '8eaef023-2b34-4da1-9baa-8bc8c9d6a490';
const ENTRA = {
  clientAuthentication: ['client_secret_post'],
  // A tenant in which only administrators may consent.
  refusesAuthorization: (request: URLSearchParams) =>
    request.get('prompt') === 'consent' ? 'access_denied' : undefined,
  grantedScopes: (requested: readonly string[]) => requested.filter((scope) => scope !== 'offline_access'),
  issuesRefreshToken: requestsScope('offline_access'),
  claims: { iss: `https://login.microsoftonline.com/${TENANT}/v2.0`, tid: TENANT },
  accessTokenSeconds: 3599,
  afterRefresh: 'kept',
  tokens: standardTokens(3599, { ext_expires_in: 3599 }),
  refusedRefresh: [400, { error: 'invalid_grant', error_description: 'AADSTS70008: expired', error_codes: [70008] }],
  otherRefusals: [
    [400, { error: 'interaction_required', error_description: 'AADSTS50076: MFA', suberror: 'basic_action' }],
  ],
  api: { 'https://graph.microsoft.com/v1.0/me': { id: 'ada', displayName: 'Ada Quill' } },
  refusedCall: [401, { error: { code: 'InvalidAuthenticationToken' } }],
} as const satisfies Partial<Profile>;

function entraDocument(issuer: string, path: string) {
  const base = `https://login.microsoftonline.com/${path}`;
  return {
    url: `${base}/v2.0/.well-known/openid-configuration`,
    document: {
      issuer,
      authorization_endpoint: `${base}/oauth2/v2.0/authorize`,
      token_endpoint: `${base}/oauth2/v2.0/token`,
      jwks_uri: `${base}/discovery/v2.0/keys`,
      userinfo_endpoint: 'https://graph.microsoft.com/oidc/userinfo',
      scopes_supported: ['openid', 'profile', 'email', 'offline_access'],
      ...RS256,
    },
  };
}

export const IDENTITY_PROVIDERS: readonly Profile[] = [
  {
    preset: 'google',
    discovery: {
      url: 'https://accounts.google.com/.well-known/openid-configuration',
      document: {
        issuer: 'https://accounts.google.com',
        authorization_endpoint: 'https://accounts.google.com/o/oauth2/v2/auth',
        token_endpoint: 'https://oauth2.googleapis.com/token',
        userinfo_endpoint: 'https://openidconnect.googleapis.com/v1/userinfo',
        revocation_endpoint: 'https://oauth2.googleapis.com/revoke',
        jwks_uri: 'https://www.googleapis.com/oauth2/v3/certs',
        scopes_supported: ['openid', 'email', 'profile'],
        ...RS256,
      },
    },
    refusesAuthorization: (request) => (requestsScope('offline_access')(request) ? 'invalid_scope' : undefined),
    callback: { authuser: '0', prompt: 'consent' },
    grantedScopes: (requested) =>
      requested.map((scope) =>
        scope === 'email' || scope === 'profile' ? `https://www.googleapis.com/auth/userinfo.${scope}` : scope,
      ),
    issuesRefreshToken: (request, hasConsented) =>
      request.get('access_type') === 'offline' && (!hasConsented || request.get('prompt') === 'consent'),
    accessTokenSeconds: 3599,
    afterRefresh: 'silent',
    tokens: standardTokens(3599),
    refusedRefresh: [400, { error: 'invalid_grant', error_description: 'Token has been expired or revoked.' }],
    api: {},
    refusedCall: [401, { error: 'invalid_request', error_description: 'Invalid Credentials' }],
    revocation: { reply: [200, {}] },
  },
  { ...ENTRA, preset: 'entra', discovery: entraDocument(ENTRA.claims.iss, TENANT) },
  {
    ...ENTRA,
    preset: 'entra-tenants',
    discovery: entraDocument('https://login.microsoftonline.com/{tenantid}/v2.0', 'organizations'),
  },
  {
    preset: 'okta',
    discovery: discoveryAt(
      'https://example.okta.com/oauth2/default',
      {
        authorization_endpoint: '/v1/authorize',
        token_endpoint: '/v1/token',
        userinfo_endpoint: '/v1/userinfo',
        revocation_endpoint: '/v1/revoke',
        end_session_endpoint: '/v1/logout',
        jwks_uri: '/v1/keys',
      },
      { scopes_supported: ['openid', 'profile', 'email', 'address', 'phone', 'offline_access'] },
    ),
    issuesRefreshToken: requestsScope('offline_access'),
    accessTokenSeconds: 3600,
    afterRefresh: 'kept',
    tokens: standardTokens(3600),
    refusedRefresh: [400, { error: 'invalid_grant', error_description: 'The refresh token is invalid or expired.' }],
    api: {},
    refusedCall: [401, { error: 'invalid_token' }],
    revocation: { reply: [200, ''] },
  },
  {
    preset: 'auth0',
    discovery: discoveryAt(
      'https://example.eu.auth0.com/',
      {
        authorization_endpoint: '/authorize',
        token_endpoint: '/oauth/token',
        userinfo_endpoint: '/userinfo',
        revocation_endpoint: '/oauth/revoke',
        jwks_uri: '/.well-known/jwks.json',
      },
      { scopes_supported: ['openid', 'profile', 'offline_access', 'email'] },
    ),
    clientAuthentication: ['client_secret_post'],
    refusesAuthorization: (request) => (request.get('audience') ? undefined : 'access_denied'),
    issuesRefreshToken: requestsScope('offline_access'),
    accessTokenSeconds: 86_400,
    afterRefresh: 'spent',
    detectsReuse: true,
    tokens: standardTokens(86_400),
    refusedRefresh: [403, { error: 'invalid_grant', error_description: 'Unknown or invalid refresh token.' }],
    api: {},
    refusedCall: [401, { error: 'Unauthorized' }],
    revocation: { reply: [200, ''] },
  },
  {
    preset: 'keycloak',
    discovery: discoveryAt(
      'https://idp.example.com/realms/company',
      {
        authorization_endpoint: '/protocol/openid-connect/auth',
        token_endpoint: '/protocol/openid-connect/token',
        userinfo_endpoint: '/protocol/openid-connect/userinfo',
        revocation_endpoint: '/protocol/openid-connect/revoke',
        end_session_endpoint: '/protocol/openid-connect/logout',
        jwks_uri: '/protocol/openid-connect/certs',
      },
      { authorization_response_iss_parameter_supported: true },
    ),
    sendsIssuer: true,
    callback: { session_state: 's1' },
    issuesRefreshToken: always,
    accessTokenSeconds: 300,
    afterRefresh: 'kept',
    tokens: standardTokens(300, { refresh_expires_in: 0, 'not-before-policy': 0, session_state: 's1' }),
    refusedClient: [
      401,
      { error: 'unauthorized_client', error_description: 'Invalid client or Invalid client credentials' },
    ],
    refusedRefresh: [400, { error: 'invalid_grant', error_description: 'Offline session not active' }],
    api: {},
    refusedCall: [401, { error: 'invalid_token', error_description: 'Token verification failed' }],
    revocation: { reply: [200, ''] },
  },
  {
    preset: 'salesforce',
    discovery: discoveryAt('https://example.my.salesforce.com', {
      authorization_endpoint: '/services/oauth2/authorize',
      token_endpoint: '/services/oauth2/token',
      revocation_endpoint: '/services/oauth2/revoke',
      userinfo_endpoint: '/services/oauth2/userinfo',
      jwks_uri: '/id/keys',
    }),
    issuesRefreshToken: requestsScope('refresh_token'),
    accessTokenSeconds: 7200,
    afterRefresh: 'silent',
    tokens: ({ kind, accessToken, refreshToken, idToken, scopes, apiUrl }) => ({
      access_token: accessToken,
      refresh_token: refreshToken,
      id_token: kind === 'code' ? idToken : undefined,
      signature: 'c2ln',
      scope: scopes.join(' '),
      instance_url: apiUrl,
      id: 'https://login.salesforce.com/id/00D/005',
      token_type: 'Bearer',
      issued_at: String(Date.now()),
    }),
    refusedRefresh: [400, { error: 'invalid_grant', error_description: 'expired access/refresh token' }],
    apiUrlInTokens: 'https://other.my.salesforce.com',
    api: { 'https://other.my.salesforce.com/services/data/v60.0/chatter/users/me': { id: '005', name: 'Ada Quill' } },
    refusedCall: [401, [{ message: 'Session expired or invalid', errorCode: 'INVALID_SESSION_ID' }]],
    revocation: { reply: [200, ''] },
  },
  {
    preset: 'slack-sign-in',
    isForSignIn: true,
    discovery: {
      url: 'https://slack.com/.well-known/openid-configuration',
      document: {
        issuer: 'https://slack.com',
        authorization_endpoint: 'https://slack.com/openid/connect/authorize',
        token_endpoint: 'https://slack.com/api/openid.connect.token',
        userinfo_endpoint: 'https://slack.com/api/openid.connect.userInfo',
        jwks_uri: 'https://slack.com/openid/connect/keys',
        scopes_supported: ['openid', 'profile', 'email'],
        id_token_signing_alg_values_supported: ['RS256'],
        claims_supported: ['sub', 'auth_time', 'iss'],
        token_endpoint_auth_methods_supported: ['client_secret_post', 'client_secret_basic'],
      },
    },
    checksPkce: false,
    claims: { 'https://slack.com/team_id': 'T1', 'https://slack.com/user_id': 'U1' },
    issuesRefreshToken: () => false,
    accessTokenSeconds: undefined,
    afterRefresh: 'silent',
    tokens: ({ accessToken, idToken }) => ({
      ok: true,
      access_token: accessToken,
      token_type: 'Bearer',
      id_token: idToken,
    }),
    refusedClient: [200, { ok: false, error: 'bad_client_secret' }],
    refusedCode: [200, { ok: false, error: 'invalid_code' }],
    refusedRefresh: [200, { ok: false, error: 'invalid_refresh_token' }],
    api: {},
    refusedCall: [200, { ok: false, error: 'invalid_auth' }],
  },
];
