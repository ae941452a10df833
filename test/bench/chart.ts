/** Draws the main benchmark as an SVG of bars, legible on light and dark pages. */
import type { Summary } from './table.ts';

const WIDTH = 880;
const LABELS = 395;
const BARS = 360;
const TOP = 74;
const ROW = 46;
const BAR = 16;

const STYLE = `
text { font: 13px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1f2328; }
.title { font-size: 15px; font-weight: 600; }
.note { font-size: 12px; fill: #59636e; }
.line { stroke: #d1d9e0; }
.ours { fill: #0969da; } .ours.many { fill: #54aeff; }
.other { fill: #6e7781; } .other.many { fill: #afb8c1; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; }
  .note { fill: #9198a1; }
  .line { stroke: #3d444d; }
  .ours { fill: #4493f8; } .ours.many { fill: #1f6feb; }
  .other { fill: #9198a1; } .other.many { fill: #656c76; }
}`;

/** @param rows of two concurrencies; the reference comes first */
export function chart(rows: readonly Summary[]): string {
  const [fewConnections = 0, manyConnections = 0] = [...new Set(rows.map(({ connections }) => connections))];
  const names = [...new Set(rows.map(({ name }) => name))];
  const maxRatio = Math.max(...rows.map(({ ratio }) => ratio));
  const x = (ratio: number) => LABELS + (ratio / maxRatio) * BARS;
  const height = TOP + names.length * ROW + 12;
  const bars = names.map((name, n) => {
    const y = TOP + n * ROW;
    const kind = name.startsWith('/') ? 'ours' : 'other';
    const rowsOfName = rows.filter((row) => row.name === name);
    const drawn = rowsOfName.map((row, index) => {
      const classes = row.connections === manyConnections ? `${kind} many` : kind;
      const top = y + index * (BAR + 2);
      const label = `${row.ratio.toFixed(2)}  (${Math.round(row.requestsPerSecond).toLocaleString('en-GB')}/s)`;
      return `<rect class="${classes}" x="${LABELS}" y="${top}" width="${(x(row.ratio) - LABELS).toFixed(1)}" height="${BAR}" rx="2"/>
<text class="note" x="${(x(row.ratio) + 6).toFixed(1)}" y="${top + BAR - 3}">${label}</text>`;
    });
    return `<text x="${LABELS - 10}" y="${y + BAR + 5}" text-anchor="end">${escaped(labelOf(name))}</text>\n${drawn.join('\n')}`;
  });
  const title = 'An authenticated, proxied GET of 1 KB: requests per second';
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title">
<title id="title">${title}, in relation to a bare Node proxy without sessions: ${spoken(rows, fewConnections)}</title>
<style>${STYLE}
</style>
<text class="title" x="10" y="24">${title}</text>
<text class="note" x="10" y="46">In relation to a bare Node proxy without sessions, same run, same machine. Upper bar: ${fewConnections} connections; lower: ${manyConnections}.</text>
<line class="line" x1="${LABELS}" y1="${TOP - 8}" x2="${LABELS}" y2="${height - 12}"/>
${bars.join('\n')}
</svg>
`;
}

/** Gatehouse's bars are named by their routes. */
const labelOf = (name: string): string => (name.startsWith('/') ? `Gatehouse ${name}` : name);

/** The text alternative of the chart. */
function spoken(rows: readonly Summary[], connections: number): string {
  const shown = rows.filter((row) => row.connections === connections);
  return shown.map(({ name, ratio }) => `${escaped(labelOf(name))} ${ratio.toFixed(2)}`).join('; ');
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
