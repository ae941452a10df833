/** Example calls of the relay in curl, TypeScript and Python. The relay token and proofs are environment variables. */

import type { NewSecret } from '../../../shared/pages/page-data.ts';
import type { AppRoute } from '../../../shared/provider/app-routes.ts';
import { sessionCookieName } from '../../../shared/sessions/browser-sessions.ts';
import { askFor, shellQuoted } from '../../../shared/text.ts';
import type { RelayScope } from '../../relay/policy.ts';
import { EXCHANGE_GRANT_TYPE, SUBJECT_TOKEN_TYPES } from '../../relay/token-exchange.ts';

/** The call that the examples make. Its texts may come from a form, so each language quotes them. */
export interface ExampleCall {
  scope: RelayScope;
  app: string | undefined;
  /** The route of `api:call`; undefined for the list of routes. */
  route?: Pick<AppRoute, 'method' | 'path'> | undefined;
  userId: string | undefined;
  serviceAccount: string | undefined;
  proof: 'assertion' | 'id_token' | 'none';
  narrowingUnavailable: boolean;
}

export interface Examples {
  curl: string;
  typescript: string;
  python: string;
  /** Set if the call needs `ASSERTION`: the shell command that gets it with a session cookie. Needs curl 7.84. */
  assertion?: { cookie: string; shell: string } | undefined;
}

/** A text, or the name of an environment variable, which may follow a text. */
type Value = string | { text: string; env: string };
type Fields = readonly (readonly [name: string, value: Value])[];

interface ExampleRequest {
  url: string;
  /** By default GET, or POST with a body. */
  method?: string;
  headers: Fields;
  /** The form of a POST request. */
  form?: Fields;
  json?: Readonly<Record<string, string>>;
}

const PROOF: Value = { text: '', env: 'ASSERTION' };
const TOKEN_TYPES = {
  assertion: SUBJECT_TOKEN_TYPES.assertion,
  id_token: SUBJECT_TOKEN_TYPES.idToken,
  none: SUBJECT_TOKEN_TYPES.user,
};

/** Returns the call in each language. @param publicHref as in `PublicUrl` */
export function exampleCalls(publicHref: string, call: ExampleCall): Examples {
  const { url, headers, ...rest } = requestOf(call);
  const authorization: Fields = [['Authorization', { text: 'Bearer ', env: 'RELAY_TOKEN' }]];
  const contentType: Fields = rest.json ? [['Content-Type', 'application/json']] : [];
  const request = { ...rest, url: publicHref + url, headers: [...authorization, ...headers, ...contentType] };
  const needsAssertion = [...headers, ...(rest.form ?? [])].some(([, value]) => value === PROOF);
  return {
    curl: curlOf(request),
    typescript: typescriptOf(request),
    python: pythonOf(request),
    assertion: needsAssertion ? assertionCommand(publicHref) : undefined,
  };
}

/** Returns a line for a shell that asks for the relay token, and makes the first of the calls that needs no assertion. */
export function lineOf(publicHref: string, calls: readonly ExampleCall[]): NewSecret['line'] {
  const examples = calls.map((call) => exampleCalls(publicHref, call));
  const { curl, assertion } = examples.find((example) => example.assertion === undefined) ?? examples[0] ?? {};
  if (curl === undefined) return undefined;
  const call = curl.replaceAll(/ \\\n +/g, ' ');
  const text = [askFor('RELAY_TOKEN', 'Relay token'), ...(assertion ? [assertion.shell] : []), call].join('; ');
  const proof = assertion && ` It needs the cookie ${assertion.cookie} of a user’s session, for which it asks, too.`;
  return { words: `Makes a call that the token allows.${proof ?? ''}`, text };
}

function assertionCommand(publicHref: string) {
  const cookie = sessionCookieName(publicHref);
  const options = `-o /dev/null -w '%header{gatehouse-user-assertion}' -b "${cookie}=$SESSION"`;
  const call = `curl -sS ${options} ${shellQuoted(`${publicHref}/session/verify`)}`;
  return { cookie, shell: `${askFor('SESSION', 'Session cookie')}; export ASSERTION="$(${call})"` };
}

function requestOf(call: ExampleCall): ExampleRequest {
  const { scope, app, route, userId, proof, serviceAccount, narrowingUnavailable } = call;
  const unprovenUser = proof === 'none' ? userId : undefined;
  const assertion: Fields = [['Gatehouse-User-Assertion', PROOF]];
  const account: Fields = [['Gatehouse-Service-Account', serviceAccount ?? '']];
  const namedUser: Fields = unprovenUser === undefined ? assertion : [['Gatehouse-User', unprovenUser]];
  const subject = serviceAccount ? account : namedUser;
  switch (scope) {
    case 'bin:read':
      return { url: '/relay/bin/45717360', headers: [] };
    case 'threads:read':
      return { url: `/relay/threads/current${queryOf({ app })}`, headers: subject };
    case 'api:call': {
      const url = `/relay/api/${encodeURIComponent(app ?? 'APP')}`;
      if (!route) return { url, headers: [] };
      // curl would take braces for a list.
      const path = route.path.replace(/\{(\w+)\}/g, (_all, name: string) => name.toUpperCase());
      const isWrite = route.method !== 'GET';
      return { url: url + path, headers: subject, ...(isWrite && { method: route.method, json: {} }) };
    }
    case 'connections:read': {
      // A call without a user lists the connections of all users, and has no proof.
      const isProven = userId !== undefined && proof !== 'none';
      return { url: `/relay/connections${queryOf({ user: unprovenUser, app })}`, headers: isProven ? assertion : [] };
    }
    case 'connect_links:create': {
      const json = { ...(app !== undefined && { app }), ...(unprovenUser !== undefined && { userId: unprovenUser }) };
      return { url: '/relay/connect-links', headers: unprovenUser === undefined ? assertion : [], json };
    }
    case 'token:exchange': {
      const provenSubject: Value = proof === 'id_token' ? { text: '', env: 'ID_TOKEN' } : PROOF;
      const form: Fields = [
        ['grant_type', EXCHANGE_GRANT_TYPE],
        ['subject_token', unprovenUser ?? provenSubject],
        ['subject_token_type', TOKEN_TYPES[unprovenUser === undefined && proof === 'none' ? 'assertion' : proof]],
        ...(app === undefined ? [] : ([['audience', app]] as const)),
        ...(narrowingUnavailable ? ([['scope', 'openid']] as const) : []),
      ];
      return { url: '/relay/token', headers: [], form };
    }
  }
}

function queryOf(parameters: Readonly<Record<string, string | undefined>>): string {
  const entries = Object.entries(parameters).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return entries.length === 0 ? '' : `?${new URLSearchParams(entries)}`;
}

function curlOf({ url, method, headers, form = [], json }: ExampleRequest): string {
  const text = ([name, value]: Fields[number], separator: string) =>
    typeof value === 'string'
      ? shellQuoted(name + separator + value)
      : `"${name}${separator}${value.text}$${value.env}"`;
  const options = [
    ...headers.map((header) => `-H ${text(header, ': ')}`),
    ...form.map((field) => `--data-urlencode ${text(field, '=')}`),
    ...(json ? [`-d ${shellQuoted(JSON.stringify(json))}`] : []),
  ];
  const call = method === undefined ? 'curl -sS' : `curl -sS -X ${method}`;
  return [`${call} ${shellQuoted(url)}`, ...options].join(' \\\n  ');
}

/** JSON is valid as a literal in TypeScript and, except for `true`, `false` and `null`, in Python. */
const literal = (value: unknown) => JSON.stringify(value);

function typescriptOf({ url, method = 'POST', headers, form, json }: ExampleRequest): string {
  const text = (value: Value) => (typeof value === 'string' ? literal(value) : `\`${value.text}\${env.${value.env}}\``);
  const members = (fields: Fields, indent: string) =>
    fields.map(([name, value]) => `${indent}${literal(name)}: ${text(value)},\n`).join('');
  const body = form
    ? `  body: new URLSearchParams({\n${members(form, '    ')}  }),\n`
    : json
      ? `  body: JSON.stringify(${literal(json)}),\n`
      : '';
  return [
    `import { env } from "node:process";\n`,
    `const response = await fetch(${literal(url)}, {`,
    ...(body ? [`  method: ${literal(method)},`] : []),
    `  headers: {\n${members(headers, '    ')}  },\n${body}});`,
    'console.log(response.status, await response.text());',
  ].join('\n');
}

function pythonOf({ url, method, headers, form, json }: ExampleRequest): string {
  const text = (value: Value) => {
    if (typeof value === 'string') return literal(value);
    const variable = `os.environ[${literal(value.env)}]`;
    return value.text === '' ? variable : `${literal(value.text)} + ${variable}`;
  };
  const members = (fields: Fields) =>
    fields.map(([name, value]) => `        ${literal(name)}: ${text(value)},\n`).join('');
  const data = form
    ? `    data=urllib.parse.urlencode({\n${members(form)}    }).encode(),\n`
    : json
      ? `    data=json.dumps(${literal(json)}).encode(),\n`
      : '';
  const modules = [
    'os',
    'urllib.error',
    'urllib.request',
    ...(form ? ['urllib.parse'] : []),
    ...(json ? ['json'] : []),
  ];
  return [
    modules
      .sort()
      .map((name) => `import ${name}\n`)
      .join(''),
    `request = urllib.request.Request(\n    ${literal(url)},\n    headers={\n${members(headers)}    },\n${data}${method === undefined ? '' : `    method=${literal(method)},\n`})`,
    'try:',
    '    with urllib.request.urlopen(request) as response:',
    '        print(response.status, response.read().decode())',
    'except urllib.error.HTTPError as refusal:',
    '    print(refusal.code, refusal.read().decode())',
  ].join('\n');
}
