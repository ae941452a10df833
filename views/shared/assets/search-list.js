/* A search field for long lists of check boxes or links, and for long selects. Without this script, all entries are shown. */
const folded = (text) => text.trim().toLowerCase();

/** Hides the entries that lack a word of the search. Chosen entries stay. */
for (const list of document.querySelectorAll('[data-search]:not(select)')) {
  const entries = [...(list.dataset.entries ? list.querySelectorAll(list.dataset.entries) : list.children)].map(
    (element) => ({ element, text: folded(element.textContent) }),
  );
  const input = document.createElement('input');
  Object.assign(input, { type: 'search', autocomplete: 'off', maxLength: 200, placeholder: list.dataset.search });
  input.setAttribute('aria-label', list.dataset.search);
  const count = document.createElement('p');
  count.className = 'fine';
  count.setAttribute('role', 'status');
  input.addEventListener('input', () => {
    const words = folded(input.value).split(/\s+/);
    const isMatch = ({ text }) => words.every((word) => text.includes(word));
    for (const entry of entries) entry.element.hidden = !isMatch(entry) && !entry.element.querySelector(':checked');
    count.textContent = input.value === '' ? '' : `${entries.filter(isMatch).length} of ${entries.length} match`;
  });
  input.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter') return;
    // Enter opens the only link, and does not send the form around the list.
    event.preventDefault();
    const matches = input.value === '' ? [] : entries.filter(({ element }) => !element.hidden);
    if (matches.length === 1) matches[0].element.querySelector('a')?.click();
  });
  list.before(input, count);
  // On a phone the keyboard would cover the list.
  if ('autofocus' in list.dataset && matchMedia('(min-width: 48rem)').matches) input.focus({ preventScroll: true });
}

/** Replaces a select by a text field that suggests its options. The select stays in the form, hidden. */
for (const select of document.querySelectorAll('select[data-search]')) {
  const options = [...select.options];
  const list = document.createElement('datalist');
  list.id = `${select.id}-options`;
  for (const { text } of options) list.append(Object.assign(document.createElement('option'), { value: text }));
  const input = document.createElement('input');
  input.setAttribute('list', list.id);
  for (const name of ['id', 'class', 'autofocus', 'aria-invalid', 'aria-describedby']) {
    if (!select.hasAttribute(name)) continue;
    input.setAttribute(name, select.getAttribute(name));
    select.removeAttribute(name);
  }
  input.autocomplete = 'off';
  const hadFocus = document.activeElement === select;
  select.before(input, list);
  select.hidden = true;

  const show = () => {
    input.value = select.selectedOptions[0]?.text ?? '';
    input.setCustomValidity('');
  };
  const choose = (option) => {
    if (option.selected) return;
    option.selected = true;
    for (const name of ['input', 'change']) select.dispatchEvent(new Event(name, { bubbles: true }));
  };
  /** Chooses the option that was typed, or the only one that contains the text. */
  const finish = () => {
    const typed = folded(input.value);
    const matches = options.filter(({ text }) => folded(text).includes(typed));
    const match = matches.find(({ text }) => folded(text) === typed) ?? (matches.length === 1 ? matches[0] : undefined);
    if (match) choose(match);
    if (match || typed === '') show();
    else input.setCustomValidity('Choose an entry of the list.');
  };
  // The browser suggests only what the text begins with or contains, so an empty field offers all options.
  input.addEventListener('focus', () => {
    if (input.validity.customError) return;
    input.placeholder = input.value;
    input.value = '';
  });
  input.addEventListener('input', ({ inputType }) => {
    input.setCustomValidity('');
    // A suggestion was chosen. What is typed may go on: "App 1" is the beginning of "App 12".
    if (inputType === 'insertReplacementText') finish();
  });
  input.addEventListener('keydown', ({ key }) => {
    if (key === 'Enter') finish();
  });
  input.addEventListener('blur', finish);
  select.form?.addEventListener('reset', () => setTimeout(show));
  // A browser may restore the select when the user returns to the page.
  addEventListener('pageshow', show);
  show();
  if (hadFocus) input.focus();
}
