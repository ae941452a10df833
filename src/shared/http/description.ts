/** Descriptions of handlers and guards, which make up the OpenAPI document. */
import { z } from 'zod';

/** The schema of a body by its media type. */
export type Content = Readonly<Record<string, z.ZodType>>;

export interface Operation {
  /** One line for the API documentation. */
  summary: string;
  query?: z.ZodType;
  headers?: z.ZodType;
  /** As JSON. */
  body?: z.ZodType;
  /** As application/x-www-form-urlencoded. */
  form?: z.ZodType;
  /** A file that is the body, which the handler reads itself. */
  file?: Content;
  /** By status. A response with any other status is a problem document. */
  responses: Readonly<Record<number, Content>>;
  /** Where the handler itself authenticates the caller. */
  credentials?: Credentials;
  /** The section of a standard by which parameters that are not known must be ignored; without one they are refused. */
  ignoresUnknown?: string;
}

export type SecurityScheme = 'session' | 'csrf' | 'relayToken' | 'relayTokenAsPassword' | 'adminToken';

/** Alternatives. Each names all that has to be sent together, with the scopes needed (OpenAPI 3.1, Security Requirement). */
export type Credentials = readonly Readonly<Partial<Record<SecurityScheme, readonly string[]>>>[];

/** Adds its description to a handler. */
export function described<H extends object>(operation: Operation, handler: H): H & { readonly operation: Operation } {
  return Object.assign(handler, { operation });
}

/** Adds to a guard the credentials that it demands. */
export function requiring<G extends object>(credentials: Credentials, guard: G): G {
  return Object.assign(guard, { credentials });
}

/** The credentials that the guards and the handler demand together: a later alternative replaces those that it contains. */
export function credentialsOf(steps: readonly object[]): Credentials {
  return steps
    .map((step) => ('credentials' in step ? (step.credentials as Credentials) : []))
    .reduce(
      (earlier, added) => [
        ...earlier.filter((one) => !added.some((other) => Object.keys(one).every((scheme) => scheme in other))),
        ...added,
      ],
      [],
    );
}

/** For a browser, which prefers HTML to JSON. */
export const PAGE: Content = { 'text/html': z.string() };

export const json = (schema: z.ZodType): Content => ({ 'application/json': schema });
