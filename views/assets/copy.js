/* Buttons that copy the text beside them; `data-copy` says what it is. Without a script it can be selected by hand. */
const status = document.querySelector('[data-copy-status]');

for (const button of document.querySelectorAll('[data-copy]')) {
  const group = button.closest('[data-copy-group]');
  const source = (group ?? document).querySelector('[data-copy-source]');
  const label = button.querySelector('[data-copy-label]');
  if (!source || !label || !status || !navigator.clipboard) continue;
  const what = button.dataset.copy;
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
