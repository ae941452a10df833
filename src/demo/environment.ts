/** Reads the command line and the environment variables of `npm run demo`. */
import { Command } from 'commander';
import { isLoopbackHost, parsePublicUrl } from '../shared/config/rules.ts';
import type { ConfigSource } from '../shared/config/setting.ts';
import { StartRefused } from '../shared/errors.ts';

const HELP = `There are no options. It reads these environment variables:
  PORT             port of Gatehouse (default: 3000)
  MANAGEMENT_PORT  port of health and metrics (default: 3009)
  SANDBOX_PORT     first of three ports: identity provider, platform, BIN lookup service (default: 3001)
  PUBLIC_URL       URL at which your front end serves Gatehouse, on an address of this machine,
                   such as http://localhost:5173/gatehouse (docs/your-front-end.md)
  LOG_LEVEL        level of the log file (default: info)`;

/** Prints the help for `--help`, and an error for any other argument. Both end the process. */
export function readCommandLine(args: readonly string[]): void {
  new Command('npm run demo --')
    .description('Starts Gatehouse with the sandbox and 30 days of history. It deletes everything when it stops.')
    .allowExcessArguments(false)
    .addHelpText('after', `\n${HELP}`)
    .parse(args, { from: 'user' });
}

/**
 * Reads the variables in the help, and no others: with settings of a real Gatehouse, the demo would use its storage.
 * @returns `publicUrl`: the URL of the demo's Gatehouse for browsers; `localUrl`: its URL for programs on this machine
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
  const isOtherMachine = publicUrl && !isLoopbackHost(new URL(publicUrl.href).hostname);
  const faults = [
    ...portFaults('PORT', port, 65_535),
    ...portFaults('MANAGEMENT_PORT', managementPort, 65_535),
    ...portFaults('SANDBOX_PORT', sandboxPort, 65_533),
  ];
  if (env.PUBLIC_URL && fault) faults.push(`PUBLIC_URL ${fault}`);
  if (isOtherMachine) {
    const advice = 'set it to an address of this machine, such as http://localhost:5173/gatehouse, or unset it';
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
    /** Whether a front end on this machine serves Gatehouse at its own address. */
    isProxied: Boolean(env.PUBLIC_URL),
    logLevel: env.LOG_LEVEL,
  };
}

function portFaults(name: string, value: string, max: number): string[] {
  const isPort = /^\d{1,5}$/.test(value) && Number(value) >= 1 && Number(value) <= max;
  return isPort ? [] : [`${name} must be a whole number from 1 to ${max}.`];
}
