/** Starts an HAProxy that checks `/readyz` of each server once a second, and never sends a request twice. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { killOnExit } from './child-processes.ts';
import { freePort } from './ports.ts';
import { sendRequest } from './send-request.ts';
import { until } from './until.ts';

export const missingHaproxy = spawnSync('haproxy', ['-v']).status === 0 ? undefined : 'haproxy';

/** `http` forwards requests; `tcp` forwards bytes, so a connection stays with its server; `https` terminates TLS. */
export type Mode = 'http' | 'tcp' | 'https';

/** PEM, from `selfSigned`. */
export interface Certificate {
  key: string;
  cert: string;
}

export interface Haproxy {
  urls: Record<Mode, string>;
  /** The state of a server for HAProxy, such as `UP` or `DOWN`. */
  statusOf(mode: Mode, at: number): Promise<string>;
  /** Replaces the certificate while it serves. */
  reload(certificate: Certificate): void;
  stop(): Promise<void>;
}

/** @param servers ports for requests and for health checks; `certificate`: enables `https` */
export async function startHaproxy(
  servers: readonly { port: number; managementPort: number }[],
  certificate?: Certificate,
): Promise<Haproxy> {
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-haproxy-'));
  const http = await freePort();
  const tcp = await freePort();
  const https = await freePort();
  const stats = await freePort();
  const pem = join(directory, 'certificate.pem');
  const socket = join(directory, 'socket');
  const writeCertificate = ({ key, cert }: Certificate) => writeFileSync(pem, cert + key, { mode: 0o600 });
  if (certificate) writeCertificate(certificate);
  const lines = servers.map(
    ({ port, managementPort }, index) => `  server s${index} 127.0.0.1:${port} check port ${managementPort}`,
  );
  const listen = (mode: Mode, port: number) => [
    `listen ${mode}`,
    `  bind 127.0.0.1:${port}${mode === 'https' ? ` ssl crt ${pem}` : ''}`,
    `  mode ${mode === 'tcp' ? 'tcp' : 'http'}`,
    ...lines,
  ];
  const settings = [
    'global',
    `  stats socket ${socket} mode 600 level admin expose-fd listeners`,
    'defaults',
    '  timeout connect 2s',
    '  timeout client 60s',
    '  timeout server 60s',
    '  retries 0',
    '  no option redispatch',
    '  option httpchk GET /readyz',
    // A late response on a starved machine does not mean "not ready".
    '  timeout check 60s',
    '  default-server inter 1s fall 1 rise 1',
    ...listen('http', http),
    '  option forwardfor',
    ...listen('tcp', tcp),
    ...(certificate ? [...listen('https', https), '  option forwardfor'] : []),
    'frontend stats',
    `  bind 127.0.0.1:${stats}`,
    '  mode http',
    '  stats enable',
    '  stats uri /',
    '',
  ];
  const file = join(directory, 'haproxy.cfg');
  writeFileSync(file, settings.join('\n'));
  const haproxy = killOnExit(spawn('haproxy', ['-W', '-f', file, '-db'], { stdio: 'ignore' }));
  const ended = once(haproxy, 'exit');
  const statusOf = async (mode: Mode, at: number) => {
    const [head = '', ...rows] = (await sendRequest(`http://127.0.0.1:${stats}/;csv`)).body.split('\n');
    const row = rows.find((line) => line.startsWith(`${mode},s${at},`))?.split(',');
    return row?.[head.split(',').indexOf('status')] ?? '';
  };
  const stop = async () => {
    haproxy.kill('SIGTERM');
    await ended;
    rmSync(directory, { recursive: true, force: true });
  };
  await until(async () => {
    if (haproxy.exitCode !== null) throw new Error('haproxy refuses these settings.');
    return (await statusOf('tcp', 0).catch(() => '')) !== '';
  });
  const urls = {
    http: `http://127.0.0.1:${http}`,
    tcp: `http://127.0.0.1:${tcp}`,
    https: `https://127.0.0.1:${https}`,
  };
  return {
    urls,
    statusOf,
    stop,
    reload(next) {
      writeCertificate(next);
      haproxy.kill('SIGUSR2');
    },
  };
}
