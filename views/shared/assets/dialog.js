/* Shows confirmation pages as dialogs. Without this script, or if loading fails, they remain pages. */
const dialog = document.createElement('dialog');
dialog.className = 'confirm-dialog';
dialog.setAttribute('aria-labelledby', 'confirm-title');
document.body.append(dialog);
let opener;
/** The number of the last request; responses to earlier ones are ignored. */
let latestRequest = 0;

async function openDialog(url, trigger) {
  latestRequest += 1;
  const request = latestRequest;
  try {
    const response = await fetch(url, { headers: { accept: 'text/html' } });
    const text = await response.text();
    if (request !== latestRequest) return;
    const page = new DOMParser().parseFromString(text, 'text/html');
    const question = page.querySelector('[data-confirm]');
    if (!question) throw new Error('The page has no confirmation.');
    dialog.replaceChildren(document.importNode(question, true));
  } catch {
    if (request !== latestRequest) return;
    // The page itself explains the failure, for example an ended session or a deleted record.
    location.assign(url);
    return;
  }
  // A menu item is hidden once its menu closes, so the menu's button gets the focus back.
  const menu = trigger.closest('.menu');
  opener = menu ? menu.querySelector('summary') : trigger;
  if (menu) menu.open = false;
  dialog.showModal();
}

document.addEventListener('click', (event) => {
  const link = event.target.closest('a[data-dialog]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  openDialog(link.href, link);
});

document.addEventListener('submit', (event) => {
  const form = event.target.closest('form[data-dialog]');
  if (!form) return;
  event.preventDefault();
  openDialog(`${form.action}?${new URLSearchParams(new FormData(form))}`, event.submitter ?? form);
});

dialog.addEventListener('click', (event) => {
  if (!event.target.closest('[data-cancel]') && event.target !== dialog) return;
  event.preventDefault();
  dialog.close();
});

dialog.addEventListener('close', () => opener?.focus());
