/** Compares responses with the OpenAPI document of the site that sent them. */
import { z } from 'zod';
import type { ApiDocument, ApiOperation } from '../../src/gatehouse/api-docs/document.ts';
import { sendRequest } from './send-request.ts';

export interface RecordedResponse {
  method: string;
  path: string;
  status: number;
  contentType: string | undefined;
  body: string;
}

export interface ApiContract {
  /** Every operation with each status that the document names, such as `GET /session 200`. */
  readonly documented: readonly string[];
  /** The entry of `documented` for this response; undefined for a route that the document leaves out. */
  nameOf(seen: RecordedResponse): string | undefined;
  /** The differences between the response and the document. Empty if there are none or the route is not documented. */
  faultsOf(seen: RecordedResponse): string[];
}

type JsonSchema = Parameters<typeof z.fromJSONSchema>[0];

export async function apiContract(site: { url: string }): Promise<ApiContract> {
  const document: ApiDocument = JSON.parse((await sendRequest(`${site.url}/openapi.json`)).body);
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      const pattern = path
        .replaceAll('.', '\\.')
        .replace('{platformPath}', '.+')
        .replace(/\{\w+\}/g, '[^/]+');
      return { name: `${method.toUpperCase()} ${path}`, pattern: new RegExp(`^${pattern}$`), method, operation };
    }),
  );
  const schemas = new Map<unknown, z.ZodType>();
  const schemaOf = (schema: object): z.ZodType => {
    const resolved = '$ref' in schema ? document.components.schemas.Problem : schema;
    const zodSchema = schemas.get(resolved) ?? z.fromJSONSchema(resolved as JsonSchema);
    schemas.set(resolved, zodSchema);
    return zodSchema;
  };

  // A fixed path comes before one with a parameter in its place.
  operations.sort((left, right) => left.name.split('{').length - right.name.split('{').length);
  const findOperation = ({ method, path }: RecordedResponse) =>
    operations.find((operation) => operation.method === method.toLowerCase() && operation.pattern.test(path));

  const faultsOf = ({ responses }: ApiOperation, { status, contentType, body }: RecordedResponse): string[] => {
    const response = responses[status] ?? (status >= 400 ? responses.default : undefined);
    if (!response) return [`status ${status} is not documented`];
    const type = contentType?.split(';')[0];
    if (!response.content) return [];
    // An export without entries has no lines.
    if (body === '' && type !== 'application/x-ndjson') return ['no body'];
    const content = response.content[type ?? ''] ?? response.content['*/*'];
    if (!content) return [`${type} is not documented for status ${status}`];
    if (!type || !/[/+]json$/.test(type)) return [];
    const { error } = schemaOf(content.schema as object).safeParse(JSON.parse(body));
    return error ? [z.prettifyError(error)] : [];
  };

  return {
    documented: operations.flatMap(({ name, operation }) =>
      Object.keys(operation.responses)
        .filter((status) => status !== 'default')
        .map((status) => `${name} ${status}`),
    ),
    nameOf(seen) {
      const match = findOperation(seen);
      return match && `${match.name} ${seen.status}`;
    },
    faultsOf(seen) {
      const match = findOperation(seen);
      return match ? faultsOf(match.operation, seen).map((fault) => `${match.name} ${seen.status}: ${fault}`) : [];
    },
  };
}
