/* The frame of the administration: scrolls to the current tab, closes menus, opens the search with `/`, opens and counts rows. */
const currentTab = document.querySelector('.tab-list [aria-current]');
if (currentTab) {
  // Not with `scrollIntoView`: the first Tab key would then go to the next tab, and not to the skip link.
  const list = currentTab.closest('.tab-list');
  const { left, width } = currentTab.getBoundingClientRect();
  list.scrollLeft += left + width / 2 - list.getBoundingClientRect().left - list.clientWidth / 2;
}

// Without this script, a menu closes by its own button, or when another menu opens.
const openMenu = () => document.querySelector('.menu[open]');

document.addEventListener('keydown', ({ key }) => {
  const menu = openMenu();
  if (key !== 'Escape' || !menu) return;
  menu.open = false;
  menu.querySelector('summary').focus();
});

document.addEventListener('pointerdown', ({ target }) => {
  const menu = openMenu();
  if (menu && !menu.contains(target)) menu.open = false;
});

const search = document.querySelector('#admin-search');
const shortcutHint = search?.parentElement.querySelector('kbd');
if (shortcutHint) shortcutHint.hidden = false;

document.addEventListener('keydown', (event) => {
  const { key, target } = event;
  const isCommand = event.ctrlKey || event.metaKey || event.altKey;
  // The key has its usual meaning in fields and dialogs.
  if (key !== '/' || isCommand || !search || target.closest('input, select, textarea, [contenteditable], dialog'))
    return;
  event.preventDefault();
  search.focus();
  search.select();
});

// Opens a row by a click beside its links. A link drawn over the row would cover all rows in Safari, which takes no `tr` for
// the containing block (https://bugs.webkit.org/show_bug.cgi?id=240961).
document.addEventListener('click', (event) => {
  const { target } = event;
  const link = target.closest('.list tbody tr')?.querySelector('th > a');
  const hasOtherEffect = target.closest('a, button, details, dialog, input, label') || getSelection().type === 'Range';
  if (link && !hasOtherEffect) link.dispatchEvent(new MouseEvent('click', event));
});

// A filter that is chosen applies at once. With keys, it applies by Enter: the arrow keys also change a closed select, and Tab
// only leads to the next field.
const FILTER = 'gatehouse-filter';
const filters = document.querySelector('.filters-form');
let isStepping = false;
let chosenId;
filters?.addEventListener('keydown', ({ key }) => {
  isStepping = key !== 'Enter';
});
filters?.addEventListener('pointerdown', ({ target }) => {
  if (target.matches('select')) isStepping = false;
});
filters?.addEventListener('change', ({ target }) => {
  if (!target.matches('select') || isStepping) return;
  chosenId = `filter-${target.name}`;
  filters.requestSubmit();
});
filters?.addEventListener('submit', () => {
  try {
    sessionStorage.setItem(FILTER, chosenId ?? document.activeElement.id);
  } catch {
    // Without storage, the focus is lost.
  }
});
try {
  // The filtered list is a new page, on which the focus is again at the filter.
  const chosen = document.getElementById(sessionStorage.getItem(FILTER));
  sessionStorage.removeItem(FILTER);
  chosen?.focus({ preventScroll: true });
} catch {
  // The browser forbids storage.
}

for (const list of document.querySelectorAll('[data-bulk]')) {
  const selectAll = list.querySelector('[data-check-all]');
  const boxes = [...list.querySelectorAll('tbody [type="checkbox"]')];
  const show = () => {
    const count = boxes.filter(({ checked }) => checked).length;
    list.querySelector('[data-bulk-count]').textContent = `${count} selected`;
    selectAll.checked = count === boxes.length;
    selectAll.indeterminate = count > 0 && count < boxes.length;
  };
  selectAll.hidden = false;
  selectAll.addEventListener('change', () => {
    for (const box of boxes) box.checked = selectAll.checked;
  });
  list.addEventListener('change', show);
  // A browser may restore the check marks when the user returns to the page.
  show();
}
