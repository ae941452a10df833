/*
 * Loads a page anew that the browser kept for Back and Forward: the session may have ended meanwhile, and a secret is
 * shown once (R106). Browsers keep pages in spite of `Cache-Control: no-store`. The kept page is hidden until then.
 * Also forgets what another user typed into a form of this tab (`form-changes.js`).
 */
addEventListener('pagehide', () => {
  document.documentElement.hidden = true;
});
addEventListener('pageshow', ({ persisted }) => {
  if (persisted) location.reload();
});

const { user } = document.querySelector('main')?.dataset ?? {};
try {
  const sent = JSON.parse(sessionStorage.getItem('gatehouse-form'));
  if (user && sent && sent.user !== user) sessionStorage.removeItem('gatehouse-form');
} catch {
  // The browser forbids storage: nothing was kept.
}
