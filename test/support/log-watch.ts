/** Checks the log lines of every Gatehouse of a test file for credentials, card numbers and wrong format. */
import { containsCardNumber } from '../../src/shared/observability/card-numbers.ts';
import { credentialsIn, linesWithCredentials, piecesOf } from './credentials.ts';

const lines = new Set<string>();
const credentials = new Set<string>();
/** Only the start of each message and the first credentials are read, to limit the cost under load. */
const MAX_CHARACTERS = 8_192;
const MAX_CREDENTIALS = 20_000;

/** Collects the credentials in an HTTP message. */
export function collectCredentials(message: string): void {
  if (credentials.size >= MAX_CREDENTIALS) return;
  for (const piece of credentialsIn(message.slice(0, MAX_CHARACTERS))) credentials.add(piece);
}

/** A log destination that adds each line to `output` and to the watched lines. */
export function watchedLog(output: string[]): { write(line: string): void } {
  return {
    write(line) {
      output.push(line);
      lines.add(line);
    },
  };
}

/** Watches the log lines in the output of a process. */
export function watchOutput(text: string): void {
  for (const line of text.split('\n')) {
    if (line.startsWith('{"level":')) lines.add(line);
  }
}

const SECRET_SETTINGS = ['SESSION_SECRETS', 'ENCRYPTION_KEYS', 'BIN_SERVICE_API_KEY', 'OTEL_EXPORTER_OTLP_HEADERS'];

/** Watches for the secrets in the settings of a process. */
export function watchSecrets(env: Readonly<Record<string, string | undefined>>): void {
  for (const secret of SECRET_SETTINGS.flatMap((name) => (env[name] ?? '').split(','))) {
    // The id of a key may be logged.
    for (const piece of piecesOf(secret.slice(secret.indexOf(':') + 1))) credentials.add(piece);
  }
}

/** Clears lines and credentials after each test file, because one process runs many files. */
export function resetWatch(): void {
  lines.clear();
  credentials.clear();
}

/** The number of watched lines and credentials so far. */
export const watchedCounts = () => ({ lines: lines.size, credentials: credentials.size });

/** Returns the forbidden lines by their fault. */
export function faultyLines(): Record<'credential' | 'cardNumber' | 'form', string[]> {
  return {
    credential: linesWithCredentials(lines, credentials),
    cardNumber: [...lines].filter(containsCardNumber),
    form: [...lines].filter((line) => !isLogLine(line)),
  };
}

function isLogLine(line: string): boolean {
  try {
    const { level, time, msg } = JSON.parse(line);
    return Number.isInteger(level) && Number.isFinite(Date.parse(time)) && typeof msg === 'string';
  } catch {
    return false;
  }
}
