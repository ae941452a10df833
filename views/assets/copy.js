/* Owns the buttons that copy what stands beside them, such as the reference of an error page; without one it can be selected by hand. */
const status = document.querySelector('[data-copy-status]');

for (const button of document.querySelectorAll('[data-copy]')) {
  const group = button.closest('[data-copy-group]');
  const source = (group ?? document).querySelector('[data-copy-source]');
  const label = button.querySelector('[data-copy-label]');
  const what = group ? 'It' : 'The reference';
  if (!source || !label || !status || !navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(source.textContent.trim());
      label.textContent = 'Copied';
      status.textContent = `${what} is copied.`;
    } catch {
      // The browser may forbid it: then the text is at least marked, ready to be copied by hand.
      getSelection()?.selectAllChildren(source);
      status.textContent = `${what} is marked.`;
    }
  });
}
