/* Buttons that copy a text, which `data-copy` names. Without this script, users select the text themselves. */
/** How long a button says that it has copied. */
const SHOWN_MS = 3_000;
const status = document.querySelector('[data-copy-status]');

for (const button of document.querySelectorAll('[data-copy]')) {
  const group = button.closest('[data-copy-group]');
  const source = (group ?? document).querySelector('[data-copy-source]');
  const label = button.querySelector('[data-copy-label]');
  // The page may show only a part of an id; the button has all of it.
  const fullText = button.dataset.copyText;
  if (!(fullText || source) || !label || !status || !navigator.clipboard) continue;
  const subject = button.dataset.copy;
  const initialLabel = label.textContent;
  let timer;
  button.hidden = false;
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(fullText ?? source.textContent.trim());
      label.textContent = 'Copied';
      button.classList.add('is-copied');
      status.textContent = `${subject} is copied.`;
      clearTimeout(timer);
      timer = setTimeout(() => {
        label.textContent = initialLabel;
        button.classList.remove('is-copied');
      }, SHOWN_MS);
    } catch {
      // If the browser forbids copying, the text is selected for the user to copy.
      getSelection()?.selectAllChildren(fullText ? button.previousElementSibling : source);
      status.textContent = `${subject} is selected.`;
    }
  });
}
