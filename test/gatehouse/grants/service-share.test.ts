/** R134: refreshes of services are counted at the host that they go to, with a provider that is found by discovery. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createServiceShare, type InServiceShare } from '../../../src/gatehouse/grants/service-share.ts';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createOutbound, type Outbound } from '../../../src/shared/outbound/outbound.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import { createProviderClient } from '../../../src/shared/provider/provider-client.ts';
import type { ProviderJwts } from '../../../src/shared/provider/provider-jwt.ts';
import { createProviderMetadata } from '../../../src/shared/provider/provider-metadata.ts';
import { PLATFORM } from '../../support/apps.ts';

const TOKEN_ORIGIN = 'http://127.0.0.1:9';
const LIMITS = { concurrency: 8, waiting: 0 };

let server: Server;
let issuer: string;
let app: ConnectedApp;
let outbound: Outbound;
let inServiceShare: InServiceShare;
let servedOrigins: string[];
beforeEach(async () => {
  server = createServer((_req, res) => {
    const endpoints = { authorization_endpoint: `${issuer}/authorize`, token_endpoint: `${TOKEN_ORIGIN}/token` };
    res.end(JSON.stringify({ issuer, ...endpoints }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  app = { ...PLATFORM, issuer } as ConnectedApp;
  servedOrigins = [];
  outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']), limits: LIMITS });
  const metadata = createProviderMetadata({ outbound, monotonicClock: () => performance.now(), random: () => 0 });
  const provider = createProviderClient({ outbound, metadata, jwts: {} as ProviderJwts });
  const runInServiceShare: Outbound['runInServiceShare'] = (origin, service, work) => {
    servedOrigins.push(origin);
    return outbound.runInServiceShare(origin, service, work);
  };
  inServiceShare = createServiceShare({ runInServiceShare }, provider);
});
afterEach(async () => {
  await outbound.close();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

test('the share is that of the discovered token endpoint, which is read within the share of the issuer', async () => {
  expect(await inServiceShare(app, 'flood', async () => 'refreshed')).toEqual({ value: 'refreshed' });
  expect(servedOrigins).toEqual([issuer, TOKEN_ORIGIN]);
  expect(await inServiceShare(app, 'flood', async () => 'refreshed')).toEqual({ value: 'refreshed' });
  expect(servedOrigins).toEqual([issuer, TOKEN_ORIGIN, TOKEN_ORIGIN]);
});

test('a service whose refreshes have its share of the token endpoint makes no further call to that host', async () => {
  await inServiceShare(app, 'flood', async () => undefined);
  const release = Promise.withResolvers<void>();
  const refreshes = [1, 2].map(() => inServiceShare(app, 'flood', () => release.promise));

  expect(await inServiceShare(app, 'flood', async () => undefined)).toBeUndefined();

  const relayed = outbound.stream(outbound.target(`${TOKEN_ORIGIN}/`), [], { service: 'flood' });
  await expect(relayed.response).rejects.toMatchObject({ reason: 'busy' });

  release.resolve();
  await Promise.all(refreshes);
});

test('the share is that of the issuer if discovery fails', async () => {
  const unreachable = { ...app, issuer: 'http://127.0.0.1:9' };
  expect(await inServiceShare(unreachable, 'flood', async () => 'tried')).toEqual({ value: 'tried' });
  expect(servedOrigins).toEqual(['http://127.0.0.1:9', 'http://127.0.0.1:9']);
});
