/** A certificate authority for tests, made with openssl. It keeps its files in a temporary folder. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface SignedFiles {
  cert: string;
  key: string;
}

export function createAuthority(name = 'Private authority of a test') {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-authority-'));
  const run = (...args: string[]) => execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' });
  run('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', 'ca.key', '-out', 'ca.pem', '-subj', `/CN=${name}`);
  return {
    folder,
    file: join(folder, 'ca.pem'),
    /** Signs a certificate for a server or a client. @param host a DNS name */
    sign(host: string, label = host): SignedFiles {
      const [cert, key, request] = [`${label}.pem`, `${label}.key`, `${label}.csr`];
      writeFileSync(join(folder, `${label}.ext`), `subjectAltName=DNS:${host}\n`);
      run('req', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', request, '-subj', `/CN=${host}`);
      const ca = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2'];
      run('x509', '-req', '-in', request, '-out', cert, '-extfile', `${label}.ext`, ...ca);
      return { cert: join(folder, cert), key: join(folder, key) };
    },
    dispose: () => rmSync(folder, { recursive: true, force: true }),
  };
}
