/* Shows the progress of work in the background, and the page anew once it is done. Without a script the page reloads. */
const PAUSE_MS = 1_000;

async function renew() {
  try {
    const response = await fetch(location.pathname, { headers: { accept: 'text/html' } });
    const page = new DOMParser().parseFromString(await response.text(), 'text/html');
    const next = page.querySelector('[data-progress]');
    // Done, or the session has ended: the page itself says so.
    if (!next) return location.replace(location.pathname);
    document.querySelector('[data-progress]').replaceWith(document.importNode(next, true));
  } catch {
    // An instance that restarts: the next attempt reaches another one.
  }
  setTimeout(renew, PAUSE_MS);
}

setTimeout(renew, PAUSE_MS);
