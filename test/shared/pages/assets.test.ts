/** The paths of the files that pages load, and how long browsers cache them. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import express, { type ErrorRequestHandler } from 'express';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { assets, flagFile } from '../../../src/shared/pages/assets.ts';
import { sendRequest } from '../../support/send-request.ts';
import { type Served, serve } from '../http/serve.ts';

let directory: string;
let served: Served;
const routes: string[] = [];
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-assets-'));
  mkdirSync(join(directory, 'icons'));
  for (const name of ['own.css', '.hidden', 'index.html', 'icons/index.html', 'pico.css']) {
    writeFileSync(join(directory, name), `of ${name}`);
  }
  const app = express();
  app.use((req, _res, next) => {
    req.context = { id: 'i', reference: 'i', route: 'none', address: '192.0.2.1' };
    next();
    routes.push(req.context.route);
  });
  app.use('/assets', assets(directory), (_req, res) => void res.status(404).send('nothing'));
  const failed: ErrorRequestHandler = (error, _req, res, _next) =>
    void res
      .status(error.status)
      .set(error.headers ?? {})
      .send(error.code);
  served = await serve(app.use(failed));
});
afterEach(async () => {
  await served.close();
  rmSync(directory, { recursive: true, force: true });
});

const get = (path: string, method = 'GET') => sendRequest(`${served.url}/assets${path}`, { method });

describe('a file', () => {
  test.each([
    ['/own.css', 'text/css; charset=utf-8', /^of own\.css$/],
    ['/pico.css', 'text/css; charset=utf-8', /Pico CSS/],
    ['/flags/dk.svg', 'image/svg+xml', /^<svg|^<\?xml/],
  ])('%s is cached for an hour', async (path, type, content) => {
    const { status, headers, body } = await get(path);
    expect([status, headers['content-type'], headers['cache-control']]).toEqual([200, type, 'public, max-age=3600']);
    expect(body).toMatch(content);

    const head = await get(path, 'HEAD');
    expect([head.status, head.headers['content-length'], head.body]).toEqual([200, headers['content-length'], '']);
    expect(routes.at(-1)).toBe('/assets');
  });

  test.each(['/none.css', '/', '/.hidden', '/icons', '/icons/', '/flags/zz.svg', '/flags/DK.svg', '/pico'])(
    '%s is not found',
    async (path) => {
      const { status, headers } = await get(path);
      expect([status, headers.location, headers['cache-control']]).toEqual([404, undefined, undefined]);
    },
  );

  test('gets 416 for a range that it does not have', async () => {
    for (const path of ['/own.css', '/pico.css']) {
      const { status } = await sendRequest(`${served.url}/assets${path}`, { headers: { range: 'bytes=99999999-' } });
      expect(status, path).toBe(416);
    }
  });

  test.each(['POST', 'PUT', 'DELETE', 'OPTIONS'])('refuses %s', async (method) => {
    for (const path of ['/own.css', '/pico.css', '/none.css']) {
      const { status, headers, body } = await get(path, method);
      expect([status, headers.allow, body]).toEqual([405, 'GET, HEAD', 'method_not_allowed']);
    }
  });
});

test('flagFile finds a flag only by the country’s code in lower case', () => {
  expect(flagFile('/flags/dk.svg')).toMatch(/\/dnk\.svg$/);
  expect(readFileSync(flagFile('/flags/ch.svg') ?? '', 'utf8')).toContain('<svg');
  for (const path of ['/flags/zz.svg', '/flags/DK.svg', '/flags/dnk.svg', '/flags/d.svg', '/x/flags/dk.svg']) {
    expect(flagFile(path), path).toBeUndefined();
  }
  for (const path of ['/flags/dk.svgz', '/flags/dkxsvg', '/flags/', '/own.css']) {
    expect(flagFile(path), path).toBeUndefined();
  }
});
