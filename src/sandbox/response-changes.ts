/** Applies the faults that change or drop the response after the request took effect. */
import type { ServerResponse } from 'node:http';
import type { FaultKind } from './faults.ts';
import type { SigningKeys } from './signing-keys.ts';

type Json = Record<string, unknown>;

const WRONG_ISSUER = 'https://other-issuer.example';

/** Prepares `res` so that the fault is applied to the handler's response. */
export function changeResponse(res: ServerResponse, fault: FaultKind, keys: SigningKeys): void {
  if (fault.kind === 'reset') {
    intercept(res, async () => {
      res.socket?.resetAndDestroy();
      return undefined;
    });
  }
  const change = changeOf(fault, keys);
  if (change === undefined) return;
  intercept(res, async (body) => {
    if (fault.kind === 'wrong_issuer') changeIssuerInLocation(res, fault.issuer ?? WRONG_ISSUER);
    const isJson = body.length > 0 && String(res.getHeader('content-type')).includes('json');
    if (!isJson) return body;
    const changed = Buffer.from(JSON.stringify(await change(JSON.parse(body.toString()) as Json)));
    res.removeHeader('etag');
    res.setHeader('content-length', changed.length);
    return changed;
  });
}

function changeOf(fault: FaultKind, keys: SigningKeys): ((body: Json) => object | Promise<object>) | undefined {
  if (fault.kind === 'rewrite') return fault.change;
  if (fault.kind === 'wrong_signature') return (body) => withIdToken(body, keys.signWithWrongKey);
  if (fault.kind !== 'wrong_issuer') return undefined;
  const issuer = fault.issuer ?? WRONG_ISSUER;
  return async (body) => {
    const changed = await withIdToken(body, (idToken) => keys.changeClaims(idToken, { iss: issuer }));
    return 'issuer' in changed ? { ...changed, issuer } : changed;
  };
}

async function withIdToken(body: Json, change: (idToken: string) => Promise<string>): Promise<Json> {
  return typeof body.id_token === 'string' ? { ...body, id_token: await change(body.id_token) } : body;
}

/** Changes the issuer that the authorization response names in the redirect (RFC 9207). */
function changeIssuerInLocation(res: ServerResponse, issuer: string): void {
  const location = String(res.getHeader('location') ?? '');
  const url = URL.parse(location);
  if (!url?.searchParams.has('iss')) return;
  url.searchParams.set('iss', issuer);
  res.setHeader('location', url.href);
}

/**
 * Collects the body of the handler's response. `finish` returns the body to send instead, or undefined if it has closed
 * the socket.
 */
function intercept(res: ServerResponse, finish: (body: Buffer) => Promise<Buffer | undefined>): void {
  const chunks: Buffer[] = [];
  const end = res.end.bind(res);
  const collect = (chunk: unknown) => {
    if (typeof chunk === 'string' || chunk instanceof Uint8Array) chunks.push(Buffer.from(chunk));
  };
  res.write = ((chunk: unknown) => {
    collect(chunk);
    return true;
  }) as typeof res.write;
  res.end = ((chunk?: unknown) => {
    collect(chunk);
    finish(Buffer.concat(chunks)).then(
      (body) => body && end(body),
      (error: unknown) => res.destroy(error instanceof Error ? error : new Error(String(error))),
    );
    return res;
  }) as typeof res.end;
}
