/** Runs the complete BIN lookup service in the sandbox. Its users register with the accounts of the sandbox. */
import { randomBytes } from 'node:crypto';
import type { RequestListener } from 'node:http';
import { isIPv6 } from 'node:net';
import type { BinServiceAssembly, BinServiceParts } from '../bin-lookup-service/assembly.ts';
import { openBinService, readBinServiceSettings } from '../bin-lookup-service/start.ts';
import { BIN_CLIENT_ID, type SandboxClient } from './clients.ts';
import type { Sandbox } from './sandbox.ts';

type OpenParts = Omit<BinServiceParts, 'settings' | 'store'> & {
  directory: string;
  logLevel: string | undefined;
};

export interface OwnBinService {
  /** The client that the sandbox must register. */
  client: SandboxClient;
  /** Handles requests, which wait until the service is open. */
  listener: RequestListener;
  /** Opens the service with its storage. Call this after the sandbox has bound the ports. */
  open(sandbox: Pick<Sandbox, 'issuer' | 'binServiceUrl'>, parts: OpenParts): Promise<void>;
  close(): Promise<void>;
}

/** @param address the host of the sandbox, and the first of its ports */
export function createOwnBinService({ host = '127.0.0.1', port }: { host?: string; port: number }): OwnBinService {
  const clientSecret = randomBytes(24).toString('base64url');
  const url = `http://${isIPv6(host) ? `[${host}]` : host}:${port + 2}`;
  const opened = Promise.withResolvers<RequestListener>();
  let service: BinServiceAssembly | undefined;

  return {
    client: {
      clientId: BIN_CLIENT_ID,
      clientSecret,
      name: 'BIN lookup',
      redirectUris: [`${url}/account/callback`],
      settings: { requirePkce: true },
    },
    listener: (req, res) => void opened.promise.then((listener) => listener(req, res)),
    async open({ issuer, binServiceUrl }, parts) {
      const { directory, logLevel, ...rest } = parts;
      const settings = readBinServiceSettings({
        PUBLIC_URL: binServiceUrl,
        DATA_DIR: directory,
        SIGN_IN_ISSUER: issuer,
        SIGN_IN_NAME: 'the sandbox',
        SIGN_IN_CLIENT_ID: BIN_CLIENT_ID,
        SIGN_IN_CLIENT_SECRET: clientSecret,
        INTERNAL_HOSTS: host,
        LOG_LEVEL: logLevel,
        PLANS: 'starter:100000:60000:support@example.test,business:1000000:600000:priority@example.test',
      });
      service = await openBinService({ settings, withTestCards: true, confirmSeconds: 5, ...rest });
      opened.resolve(service.listener);
    },
    close: async () => service?.close(),
  };
}
