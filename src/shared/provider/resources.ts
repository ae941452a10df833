/** Resource indicators (RFC 8707): the field of a registration, and the parameters of requests to the provider. */
import { z } from 'zod';
import { uriAdvice } from './url-spelling.ts';

const resourceSchema = z
  .string()
  .max(500)
  .superRefine((value, context) => {
    const isAbsolute = /^[a-z][a-z0-9+.-]*:[^\s#\\]+$/i.test(value) && URL.canParse(value);
    const message = isAbsolute
      ? uriAdvice(value)
      : 'A resource is an absolute URI without fragment (RFC 8707 section 2).';
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  });

export const resources = z.array(resourceSchema).min(1).max(10).optional().meta({
  title: 'Resources',
  description: 'The APIs that access tokens are for, as absolute URIs (RFC 8707). Only if the provider requires them.',
});

/** @param resource the only resource that the access token is for; by default all resources of the app */
export function withResources(
  app: { readonly resources?: readonly string[] | undefined },
  parameters: Record<string, string> | undefined,
  resource?: string,
): URLSearchParams {
  const combined = new URLSearchParams(parameters);
  const requested = resource === undefined ? (app.resources ?? []) : [resource];
  for (const uri of requested) combined.append('resource', uri);
  return combined;
}
