/** Descriptions of handlers and guards, from which the OpenAPI document is generated. */
import { z } from 'zod';

/** The schema of a body by its media type. */
export type Content = Readonly<Record<string, z.ZodType>>;

export interface Operation {
  /** One line for the API documentation. */
  summary: string;
  query?: z.ZodType;
  headers?: z.ZodType;
  /** The schema of a body in JSON. */
  body?: z.ZodType;
  /** The schema of a body in application/x-www-form-urlencoded. */
  form?: z.ZodType;
  /** The file that is the body. The handler reads it itself. */
  file?: Content;
  /** The bodies by status. A response with any other status is a problem document. */
  responses: Readonly<Record<number, Content>>;
  /** The credentials that the handler itself requires, if it authenticates the caller. */
  credentials?: Credentials;
  /**
   * Why unknown parameters are not refused, such as the section of a standard that requires them to be ignored. Without
   * a reason they are refused.
   */
  ignoresUnknown?: string;
}

export type SecurityScheme = 'session' | 'csrf' | 'relayToken' | 'relayTokenAsPassword' | 'adminToken';

/**
 * Alternatives. Each has the schemes that are required together, with scopes (OpenAPI 3.1, Security Requirement
 * Object).
 */
export type Credentials = readonly Readonly<Partial<Record<SecurityScheme, readonly string[]>>>[];

/** Attaches a description to a handler. */
export function described<H extends object>(operation: Operation, handler: H): H & { readonly operation: Operation } {
  return Object.assign(handler, { operation });
}

/** Attaches to a guard the credentials that it requires. */
export function requiring<G extends object>(credentials: Credentials, guard: G): G {
  return Object.assign(guard, { credentials });
}

declare const usersOnly: unique symbol;

/** A guard that only signed-in users and administrators pass. `requiringUser` makes it. */
export type UserGuard<G> = G & { readonly [usersOnly]: true };

/** Like `requiring`, for a guard that only signed-in users and administrators pass. */
export function requiringUser<G extends object>(credentials: Credentials, guard: G): UserGuard<G> {
  return requiring(credentials, guard) as UserGuard<G>;
}

/** Combines the credentials of the guards and the handler: a later alternative replaces those that it contains. */
export function credentialsOf(steps: readonly object[]): Credentials {
  return steps
    .map((step) => ('credentials' in step ? (step.credentials as Credentials) : []))
    .reduce(
      (alternatives, addedAlternatives) => [
        ...alternatives.filter(
          (alternative) =>
            !addedAlternatives.some((addition) => Object.keys(alternative).every((scheme) => scheme in addition)),
        ),
        ...addedAlternatives,
      ],
      [],
    );
}

/** The response body of a page for browsers. */
export const PAGE: Content = { 'text/html': z.string() };

export const json = (schema: z.ZodType): Content => ({ 'application/json': schema });
