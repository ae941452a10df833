/**
 * The behaviour of platforms. The presets name the source of each fact that a setting depends on. Unconfirmed facts are
 * simulated as assumed.
 */
import { always, discoveryAt, type Profile, requestsScope, standardTokens } from './profile.ts';

const GITHUB = {
  sendsForms: true,
  endsOldAccess: true,
  clientAuthentication: ['client_secret_post'],
  refusedClient: [200, { error: 'incorrect_client_credentials', error_description: 'The client_id is incorrect.' }],
  refusedCode: [200, { error: 'bad_verification_code', error_description: 'The code passed is incorrect or expired.' }],
  refusedRefresh: [200, { error: 'bad_refresh_token', error_description: 'The refresh token passed is incorrect.' }],
  api: { 'https://api.github.com/user': { login: 'ada', id: 1 } },
  refusedCall: [401, { message: 'Bad credentials' }],
} as const satisfies Partial<Profile>;

export const PLATFORMS: readonly Profile[] = [
  {
    ...GITHUB,
    preset: 'github-app',
    grantedScopes: () => [],
    ...{ issuesRefreshToken: always, accessTokenSeconds: 28_800, afterRefresh: 'spent' },
    tokens: ({ accessToken, refreshToken }) => ({
      ...{ access_token: accessToken, expires_in: 28_800, refresh_token: refreshToken },
      ...{ refresh_token_expires_in: 15_897_600, scope: '', token_type: 'bearer' },
    }),
  },
  {
    ...GITHUB,
    preset: 'github-oauth-app',
    ...{ issuesRefreshToken: () => false, accessTokenSeconds: undefined, afterRefresh: 'silent' },
    tokens: ({ accessToken, scopes }) => ({
      ...{ access_token: accessToken, scope: scopes.join(','), token_type: 'bearer' },
    }),
  },
  {
    preset: 'slack',
    clientAuthentication: ['client_secret_post'],
    checksPkce: false,
    refusesAuthorization: (request) => (request.get('user_scope') ? undefined : 'invalid_scope'),
    grantedScopes: () => ['channels:history', 'users:read'],
    ...{ issuesRefreshToken: always, accessTokenSeconds: 43_200, afterRefresh: 'spent' },
    tokens: ({ kind, accessToken, refreshToken, scopes }) => {
      const tokens = {
        ...{ scope: scopes.join(','), access_token: accessToken, token_type: 'user' },
        ...{ refresh_token: refreshToken, expires_in: 43_200 },
      };
      const team = { ok: true, app_id: 'A1', team: { id: 'T1', name: 'Harbour' }, enterprise: null };
      return kind === 'code' ? { ...team, authed_user: { id: 'U1', ...tokens } } : { ...team, ...tokens };
    },
    refusedClient: [200, { ok: false, error: 'bad_client_secret' }],
    refusedCode: [200, { ok: false, error: 'invalid_code' }],
    refusedRefresh: [200, { ok: false, error: 'invalid_refresh_token' }],
    api: { 'https://slack.com/api/auth.test': { ok: true, user: 'ada', user_id: 'U1', team_id: 'T1' } },
    refusedCall: [200, { ok: false, error: 'token_expired' }],
  },
  {
    preset: 'atlassian',
    clientAuthentication: ['client_secret_post'],
    refusesAuthorization: (request) =>
      request.get('audience') === 'api.atlassian.com' && request.get('prompt') === 'consent'
        ? undefined
        : 'invalid_request',
    issuesRefreshToken: requestsScope('offline_access'),
    ...{ accessTokenSeconds: 3600, afterRefresh: 'spent', tokens: standardTokens(3600) },
    refusedRefresh: [403, { error: 'invalid_grant', error_description: 'Unknown or invalid refresh token.' }],
    otherRefusals: [[403, { error: 'unauthorized_client', error_description: 'refresh_token is invalid' }]],
    api: { 'https://api.atlassian.com/me': { account_id: 'a1', name: 'Ada Quill', email: 'ada@example.test' } },
    refusedCall: [401, { code: 401, message: 'Unauthorized' }],
  },
  {
    preset: 'gitlab',
    discovery: discoveryAt('https://gitlab.com', {
      ...{ authorization_endpoint: '/oauth/authorize', token_endpoint: '/oauth/token' },
      ...{
        userinfo_endpoint: '/oauth/userinfo',
        revocation_endpoint: '/oauth/revoke',
        jwks_uri: '/oauth/discovery/keys',
      },
    }),
    issuesRefreshToken: always,
    ...{ accessTokenSeconds: 7200, afterRefresh: 'spent', endsOldAccess: true },
    tokens: standardTokens(7200, { token_type: 'Bearer', created_at: 1_607_635_748 }),
    refusedRefresh: [
      400,
      { error: 'invalid_grant', error_description: 'The provided authorization grant is invalid.' },
    ],
    api: { 'https://gitlab.com/api/v4/user': { id: 1, username: 'ada' } },
    refusedCall: [401, { error: 'invalid_token', error_description: 'Token is expired.' }],
    revocation: { reply: [200, {}] },
  },
  {
    preset: 'zoom',
    clientAuthentication: ['client_secret_basic'],
    ...{ issuesRefreshToken: always, accessTokenSeconds: 3599, afterRefresh: 'spent' },
    tokens: ({ accessToken, refreshToken, scopes, apiUrl }) => ({
      ...{ access_token: accessToken, token_type: 'bearer', refresh_token: refreshToken, expires_in: 3599 },
      ...{ scope: scopes.join(' '), api_url: apiUrl },
    }),
    refusedClient: [400, { reason: 'Invalid client_id or client_secret', error: 'invalid_client' }],
    refusedRefresh: [400, { reason: 'Invalid Token!', error: 'invalid_grant' }],
    otherRefusals: [[401, { reason: 'Invalid Token!', error: 'invalid_request' }]],
    apiUrlInTokens: 'https://api-eu.zoom.us',
    api: { 'https://api-eu.zoom.us/v2/users/me': { id: 'ada', display_name: 'Ada Quill' } },
    refusedCall: [401, { code: 124, message: 'Invalid access token.' }],
    revocation: { reply: [200, { status: 'success' }] },
  },
  {
    preset: 'hubspot',
    clientAuthentication: ['client_secret_post'],
    checksPkce: false,
    ...{ issuesRefreshToken: always, accessTokenSeconds: 1800, afterRefresh: 'kept' },
    tokens: ({ accessToken, refreshToken, scopes }) => ({
      ...{ token_type: 'bearer', refresh_token: refreshToken, access_token: accessToken, expires_in: 1800 },
      ...{ hub_id: 62_515, scopes, user_id: 1 },
    }),
    refusedRefresh: [
      400,
      {
        ...{ error: 'invalid_grant', error_description: 'refresh token is invalid, expired or revoked' },
        ...{ status: 'BAD_REFRESH_TOKEN', message: 'refresh token is invalid, expired or revoked' },
      },
    ],
    otherRefusals: [[400, { status: 'BAD_REFRESH_TOKEN', message: 'missing or unknown refresh token' }]],
    api: { 'https://api.hubapi.com/account-info/v3/details': { portalId: 62_515 } },
    refusedCall: [401, { status: 'error', category: 'EXPIRED_AUTHENTICATION' }],
    revocation: { reply: [200, ''] },
  },
  {
    preset: 'intuit',
    discovery: {
      url: 'https://developer.api.intuit.com/.well-known/openid_configuration',
      document: {
        issuer: 'https://oauth.platform.intuit.com/op/v1',
        authorization_endpoint: 'https://appcenter.intuit.com/connect/oauth2',
        token_endpoint: 'https://oauth.platform.intuit.com/oauth2/v1/tokens/bearer',
        userinfo_endpoint: 'https://accounts.platform.intuit.com/v1/openid_connect/userinfo',
        revocation_endpoint: 'https://developer.api.intuit.com/v2/oauth2/tokens/revoke',
        jwks_uri: 'https://oauth.platform.intuit.com/op/v1/jwks',
        scopes_supported: ['openid', 'email', 'profile', 'address', 'phone'],
        token_endpoint_auth_methods_supported: ['client_secret_post', 'client_secret_basic'],
        id_token_signing_alg_values_supported: ['RS256'],
      },
    },
    checksPkce: false,
    callback: { realmId: '9130357948' },
    claims: { realmid: '9130357948' },
    ...{ issuesRefreshToken: always, accessTokenSeconds: 3600, afterRefresh: 'kept' },
    tokens: ({ kind, accessToken, refreshToken, idToken }) => ({
      ...{ token_type: 'bearer', expires_in: 3600, refresh_token: refreshToken },
      ...{ x_refresh_token_expires_in: 8_726_400, access_token: accessToken },
      id_token: kind === 'code' ? idToken : undefined,
    }),
    refusedRefresh: [400, { error: 'invalid_grant', error_description: 'Incorrect or invalid refresh token' }],
    api: { 'https://quickbooks.api.intuit.com/v3/company/9130357948/companyinfo/9130357948': { CompanyInfo: {} } },
    refusedCall: [401, { fault: { type: 'AUTHENTICATION' } }],
    revocation: { reply: [200, ''], contentType: 'application/json' },
  },
];
