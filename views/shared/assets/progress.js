/* Updates the progress of background work, and reloads the page once it is done. Without this script, the page reloads. */
const PAUSE_MS = 1_000;

async function update() {
  try {
    const response = await fetch(location.pathname, { headers: { accept: 'text/html' } });
    // A process that starts or stops says nothing about the work.
    if (response.status >= 500) return;
    const page = new DOMParser().parseFromString(await response.text(), 'text/html');
    const next = page.querySelector('[data-progress]');
    // The work is done, or the session has ended, which the page itself explains.
    if (!next) return location.replace(location.pathname);
    document.querySelector('[data-progress]').replaceWith(document.importNode(next, true));
  } catch {
    // There is no process to respond: the next attempt may reach one.
  } finally {
    setTimeout(update, PAUSE_MS);
  }
}

setTimeout(update, PAUSE_MS);
