/** The addresses of the files that pages load, and how long browsers keep them. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import express, { type ErrorRequestHandler } from 'express';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { assets, createAssets, flagFile, readFiles, sharedAssets } from '../../../src/shared/pages/assets.ts';
import { sendRequest } from '../../support/send-request.ts';
import { type Served, serve } from '../http/serve.ts';

const FOR_A_YEAR = 'public, max-age=31536000, immutable';

describe('the files of pages', () => {
  let served: Served;
  const routes: string[] = [];
  beforeAll(async () => {
    const app = express();
    app.use((req, _res, next) => {
      req.context = { id: 'i', reference: 'i', route: 'none', address: '192.0.2.1' };
      next();
      routes.push(req.context.route);
    });
    app.use('/assets', assets(), (_req, res) => void res.status(404).send('nothing'));
    const failed: ErrorRequestHandler = (error, _req, res, _next) =>
      void res
        .status(error.status)
        .set(error.headers ?? {})
        .send(error.code);
    served = await serve(app.use(failed));
  });
  afterAll(() => served.close());
  const { path: versioned } = sharedAssets();
  const get = (path: string, method = 'GET') => sendRequest(served.url + path, { method });

  test.each([
    ['/gatehouse.css', 'text/css; charset=utf-8', /@import url\("pico\.css"\)/],
    ['/icons/gate.svg', 'image/svg+xml', /^<svg/],
    ['/back.js', 'text/javascript; charset=utf-8', /pageshow/],
    ['/pico.css', 'text/css; charset=utf-8', /Pico CSS/],
    ['/flags/dk.svg', 'image/svg+xml', /^<svg|^<\?xml/],
  ])('%s is kept for a year at the address with its version', async (path, type, content) => {
    const { status, headers, body } = await get(versioned + path);
    expect([status, headers['content-type'], headers['cache-control']]).toEqual([200, type, FOR_A_YEAR]);
    expect(body).toMatch(content);

    const head = await get(versioned + path, 'HEAD');
    expect([head.status, head.headers['content-length'], head.body]).toEqual([200, headers['content-length'], '']);
    expect(routes.at(-1)).toBe('/assets');
  });

  test.each(['/none.css', '/', '', '/.hidden', '/icons', '/icons/', '/flags/zz.svg', '/flags/DK.svg', '/pico', '/%00'])(
    '%s is not found',
    async (path) => {
      const { status, headers } = await get(versioned + path);
      expect([status, headers.location, headers['cache-control']]).toEqual([404, undefined, undefined]);
    },
  );

  test.each(['/gatehouse.css', '/pico.css', '/flags/dk.svg', '/icons/gate.svg'])(
    '%s is not found without a version',
    async (path) => {
      expect((await get(`/assets${path}`)).status).toBe(404);
      expect((await get(`/assets/abcdefghijklmno${path}`)).status).toBe(404);
      expect((await get(`/assets/abcdefghijklmnopa${path}`)).status).toBe(404);
    },
  );

  test.each(['POST', 'PUT', 'DELETE', 'OPTIONS'])('refuse %s', async (method) => {
    for (const path of ['/gatehouse.css', '/pico.css', '/none.css']) {
      const { status, headers, body } = await get(versioned + path, method);
      expect([status, headers.allow, body]).toEqual([405, 'GET, HEAD', 'method_not_allowed']);
    }
  });
});

describe('two versions', () => {
  let directory: string;
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), 'gatehouse-assets-'));
    mkdirSync(join(directory, 'icons'));
    writeFileSync(join(directory, 'page.css'), 'of the old version');
    writeFileSync(join(directory, 'icons/one.svg'), '<svg/>');
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  test('have two addresses, whichever file has changed, and the same content has one', () => {
    const [one, two] = [Buffer.from('1'), Buffer.from('2')];
    const contents = [
      new Map([['/a', one]]),
      new Map([['/a', two]]),
      new Map([['/b', one]]),
      new Map([
        ['/a', one],
        ['/b', two],
      ]),
      new Map([['/a', Buffer.from('1/b2')]]),
    ];
    const others = ['1.0.0', '1.0.1'].map((version) => ({ version, find: () => undefined }));
    const paths = () => contents.flatMap((files) => others.map((other) => createAssets(files, other).path));
    expect(new Set(paths()).size).toBe(contents.length * others.length);
    expect(paths()).toEqual(paths());
    for (const path of paths()) expect(path).toMatch(/^\/assets\/[a-p]{16}$/);
  });

  test('serve each other’s pages while processes are replaced, and no browser keeps what it gets there', async () => {
    const oldAssets = createAssets(readFiles(directory));
    const oldProcess = await serve(express().use('/assets', oldAssets.serve));
    // The new version is installed at the same place, while the old process still runs.
    writeFileSync(join(directory, 'page.css'), 'of the new version');
    writeFileSync(join(directory, 'added.css'), 'added');
    const newAssets = createAssets(readFiles(directory));
    const newProcess = await serve(express().use('/assets', newAssets.serve));
    const get = async ({ url }: Served, { path }: { path: string }, file: string) => {
      const { status, headers, body } = await sendRequest(`${url}${path}/${file}`);
      return [status, status === 200 ? body : '', headers['cache-control']];
    };
    try {
      expect(await get(oldProcess, oldAssets, 'page.css')).toEqual([200, 'of the old version', FOR_A_YEAR]);
      expect(await get(newProcess, newAssets, 'page.css')).toEqual([200, 'of the new version', FOR_A_YEAR]);
      expect(await get(oldProcess, newAssets, 'page.css')).toEqual([200, 'of the old version', 'no-store']);
      expect(await get(newProcess, oldAssets, 'page.css')).toEqual([200, 'of the new version', 'no-store']);
      expect(await get(oldProcess, newAssets, 'icons/one.svg')).toEqual([200, '<svg/>', 'no-store']);
      expect((await get(oldProcess, newAssets, 'added.css'))[0]).toBe(404);
    } finally {
      await Promise.all([oldProcess.close(), newProcess.close()]);
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
