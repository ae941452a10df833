/** Single figures: compares each with its target, and prints them. */

export interface Finding {
  what: string;
  measured: number;
  unit: string;
  /** Absent for figures without a target. */
  target?: { least: number; goal?: number } | { most: number };
}

/** A missing figure counts as a missed target. */
export function isMissed({ measured, target }: Finding): boolean {
  if (!target) return false;
  return !('least' in target ? measured >= target.least : measured <= target.most);
}

export function formatFindings(title: string, findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ what }) => what.length));
  const lines = findings.map((finding) => {
    const { what, measured, unit } = finding;
    const number = measured.toLocaleString('en-GB', { maximumSignificantDigits: 4 }).padStart(10);
    return `  ${what.padEnd(width)}${number} ${unit.padEnd(4)}${verdictOf(finding)}`.trimEnd();
  });
  return `\n${title}\n${lines.join('\n')}\n`;
}

function verdictOf(finding: Finding): string {
  const { target, unit } = finding;
  if (!target) return '';
  const print = (number: number) => `${number.toLocaleString('en-GB')} ${unit}`.trim();
  const verdict = isMissed(finding) ? '  MISSED' : '';
  if ('most' in target) return `  target at most ${print(target.most)}${verdict}`;
  const goal = target.goal === undefined ? '' : `, goal ${print(target.goal)}`;
  return `  target at least ${print(target.least)}${goal}${verdict}`;
}
