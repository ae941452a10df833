/*
 * Loads a page anew that the browser kept for Back and Forward: the session may have ended meanwhile, and a secret is
 * shown once (R106). Browsers keep pages in spite of `Cache-Control: no-store`. The kept page is hidden until then.
 */
addEventListener('pagehide', () => {
  document.documentElement.hidden = true;
});
addEventListener('pageshow', ({ persisted }) => {
  if (persisted) location.reload();
});
