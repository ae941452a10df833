/* Draws the charts of the overview, each from the table below it. Without a script, the table remains. */
const charts = [];
const COLOURS = { good: '--good', notice: '--caution', bad: '--bad' };

/** Hours as 14:00, days as 21 Nov, in UTC like the table. */
function labelOf(times) {
  const byDay = times[1] - times[0] > 3600;
  const shape = byDay ? { day: 'numeric', month: 'short' } : { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
  const format = new Intl.DateTimeFormat('en-GB', { ...shape, timeZone: 'UTC' });
  return (seconds) => format.format(seconds * 1000);
}

function draw(holder) {
  const table = document.getElementById(holder.dataset.chart);
  if (!table || !window.uPlot) return undefined;
  const styles = getComputedStyle(document.documentElement);
  const colour = (name) => styles.getPropertyValue(name).trim();
  const heads = [...table.tHead.rows[0].cells].slice(1);
  const rows = [...table.tBodies[0].rows];
  const times = rows.map((row) => Date.parse(row.querySelector('time').dateTime) / 1000);
  const values = heads.map((_head, place) => rows.map((row) => Number(row.cells[place + 1].textContent)));
  const axis = {
    stroke: colour('--ink-quiet'),
    grid: { stroke: colour('--line') },
    ticks: { stroke: colour('--line') },
  };
  const dashes = { good: [], notice: [6, 4], bad: [2, 3] };
  const series = heads.map((head) => ({
    label: head.textContent,
    stroke: colour(COLOURS[head.dataset.tone]),
    width: 2,
    dash: dashes[head.dataset.tone],
    points: { show: rows.length < 32, size: 5 },
  }));
  const max = Math.max(4, ...values.flat());
  holder.hidden = false;
  return new window.uPlot(
    {
      width: holder.clientWidth,
      height: 220,
      tzDate: (seconds) => window.uPlot.tzDate(new Date(seconds * 1000), 'UTC'),
      scales: { y: { range: [0, max * 1.1] } },
      axes: [
        { ...axis, values: (_chart, seconds) => seconds.map(labelOf(times)) },
        { ...axis, size: 48, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5, 1e6] },
      ],
      series: [{ value: '{YYYY}-{MM}-{DD} {HH}:{mm}' }, ...series],
      legend: { live: false, show: false },
    },
    [times, ...values],
    holder,
  );
}

function drawAll() {
  for (const chart of charts.splice(0)) chart.destroy();
  for (const holder of document.querySelectorAll('[data-chart]')) {
    const chart = draw(holder);
    if (chart) charts.push(chart);
  }
}

drawAll();
addEventListener('resize', () => {
  for (const chart of charts) chart.setSize({ width: chart.root.parentElement.clientWidth, height: 220 });
});
// The colours are those of the page, light or dark.
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
