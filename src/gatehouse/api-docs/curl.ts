/** One curl line for each call of the API, with tokens from environment variables. Pure. */
import type { Credentials, SecurityScheme } from '../../shared/http/description.ts';
import { shellQuoted } from '../../shared/text.ts';
import type { ApiOperation } from './document.ts';
import type { JsonSchema } from './schema-fields.ts';

/** How each kind of credentials is sent. The variables have the names that the documents use. */
const CURL_OPTIONS: Readonly<Record<SecurityScheme, string>> = {
  adminToken: '-H "Authorization: Bearer $ADMIN_TOKEN"',
  relayToken: '-H "Authorization: Bearer $RELAY_TOKEN"',
  relayTokenAsPassword: '-u "$RELAY_TOKEN_ID:$RELAY_TOKEN"',
  session: '-H "Cookie: $SESSION_COOKIE"',
  csrf: '-H "X-CSRF-Token: $CSRF_TOKEN"',
};

/** @param url the address of this Gatehouse, without a slash at its end */
export function curlLine(method: string, url: string, path: string, operation: ApiOperation): string {
  const { parameters, requestBody, security } = operation;
  const query = parameters.filter(({ in: location, required }) => location === 'query' && required);
  const search = query.map(({ name }) => `${name}=$${variableOf(name)}`).join('&');
  const address = url + path.replace(/\{(\w+)\}/g, (_all, name: string) => `$${variableOf(name)}`);
  const [type, content] = Object.entries(requestBody?.content ?? {})[0] ?? [];
  return [
    method === 'get' ? 'curl' : `curl -X ${method.toUpperCase()}`,
    `"${address}${search && `?${search}`}"`,
    ...credentialsOf(security),
    ...(type === undefined ? [] : bodyOf(type, content?.schema as JsonSchema)),
  ].join(' ');
}

function credentialsOf([first = {}]: Credentials): string[] {
  return Object.keys(first).map((scheme) => CURL_OPTIONS[scheme as SecurityScheme]);
}

function bodyOf(type: string, schema: JsonSchema): string[] {
  if (type === 'application/json') {
    return ['-H "Content-Type: application/json"', `-d ${shellQuoted(JSON.stringify(sampleOf(schema)))}`];
  }
  if (type !== 'application/x-www-form-urlencoded') return [`-H "Content-Type: ${type}"`, '--data-binary "@$FILE"'];
  const fields = Object.entries(sampleOf(schema) as Record<string, unknown>);
  return fields.map(([name, value]) => `--data-urlencode ${shellQuoted(`${name}=${value}`)}`);
}

/** Returns the smallest value that has every required field. Exported for the tests. */
export function sampleOf(schema: JsonSchema): unknown {
  const { type, properties = {}, required = [], items, minItems = 0, minimum, format } = schema;
  if (schema.const !== undefined) return schema.const;
  if (schema.default !== undefined) return schema.default;
  if (schema.enum) return schema.enum[0];
  const [variant] = (schema.anyOf ?? schema.oneOf ?? schema.allOf ?? []).filter((member) => member.type !== 'null');
  if (variant) return sampleOf(variant);
  if (type === 'object') {
    return Object.fromEntries(required.map((name) => [name, sampleOf(properties[name] ?? {})]));
  }
  if (type === 'array') return minItems > 0 && items ? [sampleOf(items)] : [];
  if (type === 'boolean') return false;
  if (type === 'integer' || type === 'number') return Math.max(1, minimum ?? 1);
  return format === 'date-time' ? '2027-01-31T00:00:00Z' : '…';
}

const variableOf = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
