/* Asks before what cannot be undone: shows the page of the question as a dialog. Without a script, or if that fails, it is a page. */
const dialog = document.createElement('dialog');
dialog.className = 'confirm-dialog';
dialog.setAttribute('aria-labelledby', 'confirm-title');
document.body.append(dialog);
let opener;
/** Counts the questions: a response to an earlier one is too late. */
let latest = 0;

async function ask(url, from) {
  latest += 1;
  const mine = latest;
  try {
    const response = await fetch(url, { headers: { accept: 'text/html' } });
    const text = await response.text();
    if (mine !== latest) return;
    const page = new DOMParser().parseFromString(text, 'text/html');
    const question = page.querySelector('[data-confirm]');
    if (!question) throw new Error('not a question');
    dialog.replaceChildren(document.importNode(question, true));
  } catch {
    if (mine !== latest) return;
    // A session that has ended, a thing that is gone: the page itself says so.
    location.assign(url);
    return;
  }
  // The entry of a menu is hidden again by then: its button takes the focus back.
  const menu = from.closest('.menu');
  opener = menu ? menu.querySelector('summary') : from;
  if (menu) menu.open = false;
  dialog.showModal();
}

document.addEventListener('click', (event) => {
  const link = event.target.closest('a[data-dialog]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  ask(link.href, link);
});

document.addEventListener('submit', (event) => {
  const form = event.target.closest('form[data-dialog]');
  if (!form) return;
  event.preventDefault();
  ask(`${form.action}?${new URLSearchParams(new FormData(form))}`, event.submitter ?? form);
});

dialog.addEventListener('click', (event) => {
  if (!event.target.closest('[data-cancel]') && event.target !== dialog) return;
  event.preventDefault();
  dialog.close();
});

dialog.addEventListener('close', () => opener?.focus());
