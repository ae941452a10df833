/** Checks the logs of a test file: the lines of every Gatehouse in it, and the credentials that none of them may contain. */
import { containsCardNumber } from '../../src/shared/observability/card-numbers.ts';
import { credentialsIn, leaks, piecesOf } from './credentials.ts';

const lines = new Set<string>();
const credentials = new Set<string>();
/** Of a body only its start is read; under load, the first of many alike. */
const MOST_CHARACTERS = 8_192;
const MOST_CREDENTIALS = 20_000;

/** Takes the credentials out of what goes over HTTP. */
export function hear(message: string): void {
  if (credentials.size >= MOST_CREDENTIALS) return;
  for (const piece of credentialsIn(message.slice(0, MOST_CHARACTERS))) credentials.add(piece);
}

/** A destination for logs whose lines are watched, and added to these. */
export function watchedLog(kept: string[]): { write(line: string): void } {
  return {
    write(line) {
      kept.push(line);
      lines.add(line);
    },
  };
}

/** What a process printed: its log, and what else is for people. */
export function watchPrinted(text: string): void {
  for (const line of text.split('\n')) {
    if (line.startsWith('{"level":')) lines.add(line);
  }
}

const SECRET_SETTINGS = ['SESSION_SECRETS', 'ENCRYPTION_KEYS', 'BIN_SERVICE_API_KEY', 'OTEL_EXPORTER_OTLP_HEADERS'];

/** The secrets that a process is started with. */
export function watchSecrets(env: Readonly<Record<string, string | undefined>>): void {
  for (const secret of SECRET_SETTINGS.flatMap((name) => (env[name] ?? '').split(','))) {
    // Of a key, its id may be told.
    for (const piece of piecesOf(secret.slice(secret.indexOf(':') + 1))) credentials.add(piece);
  }
}

/** One process runs many test files: what one of them logged is judged at its end, and once. */
export function forget(): void {
  lines.clear();
  credentials.clear();
}

/** How much there is to compare so far. */
export const heardSoFar = () => ({ lines: lines.size, credentials: credentials.size });

/** The lines that must not be, by what is wrong with them. */
export function faultyLines(): Record<'credential' | 'cardNumber' | 'form', string[]> {
  return {
    credential: leaks(lines, credentials),
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
