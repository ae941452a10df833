/* Copies a text by a button; `data-copy` names it. Without a script, users select the text themselves. */
const status = document.querySelector('[data-copy-status]');

for (const button of document.querySelectorAll('[data-copy]')) {
  const group = button.closest('[data-copy-group]');
  const source = (group ?? document).querySelector('[data-copy-source]');
  const label = button.querySelector('[data-copy-label]');
  // Of an id that is shown in part, the button holds the whole.
  const whole = button.dataset.copyText;
  if (!(whole || source) || !label || !status || !navigator.clipboard) continue;
  const what = button.dataset.copy;
  button.hidden = false;
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(whole ?? source.textContent.trim());
      label.textContent = 'Copied';
      button.classList.add('is-copied');
      status.textContent = `${what} is copied.`;
    } catch {
      // The browser may forbid it: then the text is selected, ready to be copied.
      getSelection()?.selectAllChildren(whole ? button.previousElementSibling : source);
      status.textContent = `${what} is selected.`;
    }
  });
}
