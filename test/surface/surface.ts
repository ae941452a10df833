/**
 * Collects what is stable within a major version, as `docs/upgrading.md` lists it: for each kind, the names with their
 * members, and the type of each member as text.
 */
import type { Command } from 'commander';
import { z } from 'zod';
import { confirmationSchema } from '../../src/bin-lookup-service/payments.ts';
import { LOOKUP_PROBLEMS } from '../../src/bin-lookup-service/problems.ts';
import { BIN_SERVICE_SETTINGS } from '../../src/bin-lookup-service/settings.ts';
import type { ApiDocument } from '../../src/gatehouse/api-docs/document.ts';
import { AUDIT_EVENTS } from '../../src/gatehouse/audit/kinds.ts';
import { createProgram } from '../../src/gatehouse/commands/program.ts';
import { fileEntry, secretSource } from '../../src/gatehouse/connected-apps/app-file.ts';
import { importEntry } from '../../src/gatehouse/users/import-schema.ts';
import { recordSchema } from '../../src/shared/bin/record.ts';
import type { SettingTable } from '../../src/shared/config/setting.ts';
import { SETTINGS } from '../../src/shared/config/settings.ts';
import { EX_CONFIG, PROBLEMS } from '../../src/shared/errors.ts';
import { type NotReady, readinessBody } from '../../src/shared/observability/health.ts';
import { createMetrics } from '../../src/shared/observability/metrics.ts';
import { OLDEST_READABLE, SCHEMA, SEALED_KINDS } from '../../src/shared/storage/keys.ts';
import { TABLES_VERSION } from '../../src/shared/storage/sqlite/schema.ts';
import { ROUTES } from '../support/routes.ts';
import { type JsonSchema, membersOf, membersSeen, typeOf } from './members.ts';
import { storedKinds } from './stored-kinds.ts';
import { webhookMessages } from './webhook-messages.ts';

/** `surface[kind][name][member]` is a type, such as `null|string?`: `?` is optional, `=` a value of an enum. */
export type Surface = Record<string, Record<string, Record<string, string>>>;

export async function currentSurface(document: ApiDocument): Promise<Surface> {
  const surface: Surface = {
    settings: { Gatehouse: settingsOf(SETTINGS), 'BIN lookup service': settingsOf(BIN_SERVICE_SETTINGS) },
    commands: await commandsOf(),
    files: {
      CONNECTED_APPS_FILE: sent('[]', fileEntry.extend({ clientSecret: secretSource.optional() })),
      'connections import': sent('entry', importEntry),
    },
    requests: { ...requestsOf(document), ...binServiceRequests() },
    responses: { ...responsesOf(document), ...readiness(), ...binServiceResponses() },
    pages: Object.fromEntries(pagesBeside(document).map((page) => [page, {}])),
    problems: statuses(PROBLEMS),
    'problems of the BIN lookup service': statuses({ ...LOOKUP_PROBLEMS, ...refusedBeforeLookup }),
    webhooks: await webhookMessages(),
    metrics: metrics(),
    'audit events': Object.fromEntries(Object.keys(AUDIT_EVENTS).map((event) => [event, {}])),
    storage: {
      versions: {
        oldestReadable: `${OLDEST_READABLE}`,
        oldestReader: `${SCHEMA.oldestReader}`,
        tables: `${TABLES_VERSION}`,
      },
      ...Object.fromEntries(storedKinds().map((kind) => [kind, { sealed: String(kind in SEALED_KINDS) }])),
    },
  };
  return sorted(surface) as Surface;
}

function sorted(value: object): object {
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([left], [right]) => (left < right ? -1 : 1))
      .map(([name, content]) => [name, typeof content === 'object' ? sorted(content) : content]),
  );
}

function settingsOf(table: SettingTable): Record<string, string> {
  return Object.fromEntries(
    Object.entries(table).flatMap(([name, { schema, secret }]) => {
      const { success, data } = schema.safeParse(undefined);
      const type = typeOf(z.toJSONSchema(schema, { unrepresentable: 'any' }) as JsonSchema).replace('any', 'string');
      const ending = !success ? '' : data === undefined ? '?' : `?, default ${JSON.stringify(data)}`;
      return [[name, type + ending], ...(secret ? [[`${name}_FILE`, 'string?']] : [])];
    }),
  );
}

async function commandsOf(): Promise<Surface[string]> {
  const nowhere = { source: { env: {}, readFile: () => '' }, out: process.stdout, err: process.stderr };
  const program = await createProgram({ ...nowhere, setExitStatus: () => undefined });
  const listed: Surface[string] = { '(status of a refusal)': { status: `${EX_CONFIG}` } };
  const add = (command: Command, path: string[]): void => {
    for (const subcommand of command.commands) add(subcommand, [...path, subcommand.name()]);
    if (command.commands.length > 0 && command.registeredArguments.length === 0) return;
    const inputs = command.registeredArguments.map((argument) => [
      `<${argument.name()}>`,
      `string${argument.required ? '' : '?'}`,
    ]);
    const options = command.options.map(({ long, required, optional, mandatory }) => [
      long,
      `${required || optional ? 'string' : 'flag'}${mandatory ? '' : '?'}`,
    ]);
    listed[path.join(' ')] = Object.fromEntries([...inputs, ...options]);
  };
  add(program, []);
  return listed;
}

function requestsOf({ paths }: ApiDocument): Surface[string] {
  return Object.fromEntries(
    callsOf(paths).map(([name, { parameters, requestBody }]) => {
      const fromUrl = parameters.map(({ name: parameter, in: place, required, schema }) => [
        `${place} ${parameter}`,
        typeOf(schema as JsonSchema) + (required ? '' : '?'),
      ]);
      const bodies = Object.entries(requestBody?.content ?? {}).map(([type, { schema }]) =>
        membersOf(rootOf(type), schema as JsonSchema),
      );
      return [name, Object.assign(Object.fromEntries(fromUrl), ...bodies)];
    }),
  );
}

function responsesOf({ paths, components }: ApiDocument): Surface[string] {
  const problem = ['problem', membersOf('body', components.schemas.Problem as JsonSchema)];
  const listed = callsOf(paths).flatMap(([name, { responses }]) =>
    Object.entries(responses)
      // Every call may respond with a problem.
      .filter(([status]) => status !== 'default')
      .map(([status, { content = {} }]) => [
        `${name} ${status}`,
        Object.assign(
          {},
          ...Object.entries(content).map(([type, { schema }]) => membersOf(rootOf(type), schema as JsonSchema)),
        ),
      ]),
  );
  return Object.fromEntries([problem, ...listed]);
}

const { starting, too_large, overloaded } = PROBLEMS;
/** The BIN lookup service refuses requests before a lookup with these. */
const refusedBeforeLookup = { starting, too_large, overloaded };

const BIN_LOOKUP = 'BIN lookup service: GET /{bin}';
const CONFIRMATION = 'BIN lookup service: POST /account/confirmations';

const binServiceRequests = (): Surface[string] => ({
  [BIN_LOOKUP]: { 'path bin': 'string', 'query apiKey': 'string?' },
  [CONFIRMATION]: sent('body', confirmationSchema),
});

const binServiceResponses = (): Surface[string] => ({
  [`${BIN_LOOKUP} 200`]: membersOf('body', z.toJSONSchema(recordSchema) as JsonSchema),
});

/** The type makes this list complete. */
const NOT_READY: Record<NotReady['reason'], true> = {
  ...{ starting: true, draining: true },
  ...{ storage: true, disk: true, replaced: true, unfit: true },
};

/** The responses of the management port. */
function readiness(): Surface[string] {
  const seen = (causes: (NotReady | undefined)[]) =>
    membersSeen(
      'body',
      causes.map((cause) => JSON.parse(readinessBody(cause))),
    );
  const causes: NotReady[] = [{ reason: 'starting' }, { reason: 'storage', storage: '', detail: '' }];
  return {
    'GET /readyz 200': seen([undefined]),
    'GET /readyz 503': { ...seen(causes), 'body.reason': typeOf({ enum: Object.keys(NOT_READY) }) },
  };
}

/** The pages that other sites and mails link to. Those of the administration may move. */
function pagesBeside({ paths }: ApiDocument): string[] {
  const described = new Set<string>(callsOf(paths).map(([name]) => name));
  const names = ROUTES.map(({ method, pattern }) => `${method} ${pattern.replace(/[:*](\w+)/g, '{$1}')}`);
  return names.filter((name) => !described.has(name));
}

const statuses = (problems: Readonly<Record<string, { status: number }>>): Surface[string] =>
  Object.fromEntries(Object.entries(problems).map(([code, { status }]) => [code, { status: `${status}` }]));

const sent = (path: string, schema: z.ZodType) =>
  membersOf(path, z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as JsonSchema);

const rootOf = (mediaType: string) => (mediaType === 'application/json' ? 'body' : mediaType);

const callsOf = (paths: ApiDocument['paths']) =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => [`${method.toUpperCase()} ${path}`, operation] as const),
  );

/** The metrics of prom-client about the process and Node have its names, and some exist only on Linux. */
function metrics(): Surface[string] {
  const own = createMetrics()
    .registry.getMetricsAsArray()
    .filter(({ name }) => name.startsWith('gatehouse_'));
  return Object.fromEntries(
    own.map((metric) => {
      const { labelNames } = metric as unknown as { labelNames: string[] };
      const labels = Object.fromEntries(labelNames.map((label) => [label, 'label']));
      return [metric.name, { type: metric.constructor.name.toLowerCase(), ...labels }];
    }),
  );
}
