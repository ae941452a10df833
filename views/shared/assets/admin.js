/* The frame of the administration: shows the current tab where tabs scroll, closes menus, `/` leads to the search; counts selected rows. */
document.querySelector('.tab-list [aria-current]')?.scrollIntoView({ inline: 'center', block: 'nearest' });

// Without a script a menu closes by its own button, or as another one opens.
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
const slash = search?.parentElement.querySelector('kbd');
if (slash) slash.hidden = false;

document.addEventListener('keydown', (event) => {
  const { key, target } = event;
  const isCommand = event.ctrlKey || event.metaKey || event.altKey;
  // Not while the user types elsewhere, nor behind a dialog.
  if (key !== '/' || isCommand || !search || target.closest('input, select, textarea, [contenteditable], dialog'))
    return;
  event.preventDefault();
  search.focus();
  search.select();
});
for (const list of document.querySelectorAll('[data-bulk]')) {
  const all = list.querySelector('[data-check-all]');
  const boxes = [...list.querySelectorAll('tbody [type="checkbox"]')];
  const show = () => {
    const count = boxes.filter(({ checked }) => checked).length;
    list.querySelector('[data-bulk-count]').textContent = `${count} selected`;
    all.checked = count === boxes.length;
    all.indeterminate = count > 0 && count < boxes.length;
  };
  all.hidden = false;
  all.addEventListener('change', () => {
    for (const box of boxes) box.checked = all.checked;
  });
  list.addEventListener('change', show);
  // A browser that comes back to the page may have kept the ticks.
  show();
}
