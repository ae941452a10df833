/* Owns the button that copies the reference of an error page; without it the reference can be selected by hand. */
const button = document.querySelector('[data-copy]');
const source = document.querySelector('[data-copy-source]');
const label = document.querySelector('[data-copy-label]');
const status = document.querySelector('[data-copy-status]');

if (button && source && label && status && navigator.clipboard) {
  button.hidden = false;
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(source.textContent.trim());
      label.textContent = 'Copied';
      status.textContent = 'The reference is copied.';
    } catch {
      // The browser may forbid it: then the reference is at least marked, ready to be copied by hand.
      getSelection()?.selectAllChildren(source);
      status.textContent = 'The reference is marked.';
    }
  });
}
