/** Resource indicators (RFC 8707): the field of a registration, and the parameters of requests to the provider. */
import { z } from 'zod';

const resource = z
  .string()
  .max(500)
  .refine((value) => /^[a-z][a-z0-9+.-]*:[^\s#\\]+$/i.test(value) && URL.canParse(value), {
    message: 'A resource is an absolute URI without fragment (RFC 8707 section 2).',
  });

export const resources = z.array(resource).min(1).max(10).optional().meta({
  title: 'Resources',
  description:
    'The APIs that access tokens are for, as absolute URIs (RFC 8707). Only where the provider asks for them.',
});

/** @param only the one resource that the access token is for; all of the app where left out */
export function withResources(
  app: { readonly resources?: readonly string[] | undefined },
  parameters: Record<string, string> | undefined,
  only?: string,
): URLSearchParams {
  const all = new URLSearchParams(parameters);
  for (const one of only === undefined ? (app.resources ?? []) : [only]) all.append('resource', one);
  return all;
}
