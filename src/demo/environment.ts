/** What `npm run demo` reads: its help, and the variables of the environment. */
import { Command } from 'commander';
import { isLoopbackHost, parsePublicUrl } from '../shared/config/rules.ts';
import type { ConfigSource } from '../shared/config/setting.ts';
import { StartRefused } from '../shared/errors.ts';

const HELP = `It has no options. Of the environment it reads:
  PORT             of Gatehouse (default: 3000)
  MANAGEMENT_PORT  of health and metrics (default: 3009)
  SANDBOX_PORT     first of three: identity provider, platform, BIN lookup service (default: 3001)
  PUBLIC_URL       where your front end serves Gatehouse, if it does: an address of this machine,
                   such as http://localhost:5173/gatehouse (docs/your-front-end.md)
  LOG_LEVEL        of the log file (default: info)`;

/** Prints the help and ends the process, if the command line asks for it or holds anything else. */
export function readCommandLine(args: readonly string[]): void {
  new Command('npm run demo --')
    .description('Starts Gatehouse with the sandbox and 30 days of history. It deletes everything when it stops.')
    .allowExcessArguments(false)
    .addHelpText('after', `\n${HELP}`)
    .parse(args, { from: 'user' });
}

/**
 * No other variable is read: the settings of a real Gatehouse in the same shell would give the demo real storage.
 * `publicUrl`: where browsers reach its Gatehouse, and `localUrl`: where programs of this machine do.
 * @throws StartRefused with every fault
 */
export function readEnvironment(env: ConfigSource['env']) {
  const [port, managementPort, sandboxPort] = [
    env.PORT || '3000',
    env.MANAGEMENT_PORT || '3009',
    env.SANDBOX_PORT || '3001',
  ];
  const localUrl = `http://127.0.0.1:${port}`;
  const { publicUrl, fault } = parsePublicUrl(env.PUBLIC_URL || localUrl);
  const isElsewhere = publicUrl && !isLoopbackHost(new URL(publicUrl.href).hostname);
  const faults = [
    ...portFaults('PORT', port, 65_535),
    ...portFaults('MANAGEMENT_PORT', managementPort, 65_535),
    ...portFaults('SANDBOX_PORT', sandboxPort, 65_533),
  ];
  if (env.PUBLIC_URL && fault) faults.push(`PUBLIC_URL ${fault}`);
  if (isElsewhere) {
    const advice = 'give an address of this machine, such as http://localhost:5173/gatehouse, or unset it';
    faults.push(`PUBLIC_URL: the accounts of the demo have a known password: ${advice}.`);
  }
  if (env.NODE_ENV === 'production') {
    faults.push(
      'NODE_ENV is production: the demo has accounts with a known password. Run npm start, or unset NODE_ENV.',
    );
  }
  if (faults.length > 0 || !publicUrl) throw new StartRefused(faults);
  return {
    port,
    managementPort,
    sandboxPort,
    publicUrl: publicUrl.href,
    localUrl: localUrl + publicUrl.basePath,
    /** A front end of this machine serves it, under its own address. */
    isProxied: Boolean(env.PUBLIC_URL),
    logLevel: env.LOG_LEVEL,
  };
}

function portFaults(name: string, value: string, max: number): string[] {
  const isPort = /^\d{1,5}$/.test(value) && Number(value) >= 1 && Number(value) <= max;
  return isPort ? [] : [`${name} must be a whole number from 1 to ${max}.`];
}
