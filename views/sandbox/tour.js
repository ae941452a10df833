/** Updates the tour, because Gatehouse still acts after a switch was pressed. Without scripts, reload the page. */
const REFRESH_MS = 1_500;
const switches = document.getElementById('switches');
let shown = '';

setInterval(async () => {
  // A focused button would lose the focus.
  if (document.hidden || switches.contains(document.activeElement)) return;
  const response = await fetch('/tour/switches').catch(() => undefined);
  if (!response?.ok) return;
  const html = await response.text();
  if (html !== shown) switches.innerHTML = html;
  shown = html;
}, REFRESH_MS);
