/** Owns the refusal to start: what an operator has to decide, every fault in a sentence of its own. */

/** The settings, or what they point at, cannot be used. Exit status 78 (`EX_CONFIG`). */
export class StartRefused extends Error {
  readonly faults: readonly string[];
  constructor(faults: readonly string[], options?: ErrorOptions) {
    super(faults.join('\n'), options);
    this.name = 'StartRefused';
    this.faults = faults;
  }
}

/** The system's code of an error, such as `EADDRINUSE`. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}
