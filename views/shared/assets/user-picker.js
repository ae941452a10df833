/* Suggests users while one types a name or an e-mail address; `data-users` has the address of the list. Without a script the address is typed in full. */
const MIN_CHARACTERS = 2;
const PAUSE_MS = 150;

let count = 0;

/** Adds the suggestions; `pick` is called with the value of one that was chosen. */
function suggest(input, address, pick) {
  const list = document.createElement('datalist');
  list.id = `users-${++count}`;
  input.after(list);
  input.setAttribute('list', list.id);
  let timer;
  let asked = '';

  const update = async () => {
    const q = input.value.trim();
    if (q.length < MIN_CHARACTERS || q === asked) return;
    asked = q;
    const response = await fetch(`${address}?${new URLSearchParams({ q, limit: '8' })}`, {
      headers: { accept: 'application/json' },
    }).catch(() => undefined);
    if (!response?.ok || asked !== q) return;
    const { items } = await response.json();
    list.replaceChildren(
      ...items.map(({ id, name, email }) => new Option(name && email ? name : '', email ?? id, false, false)),
    );
  };

  input.addEventListener('input', () => {
    clearTimeout(timer);
    const chosen = [...list.children].some(({ value }) => value === input.value);
    if (chosen) pick(input.value);
    else timer = setTimeout(update, PAUSE_MS);
  });
}

for (const field of document.querySelectorAll('input[data-users]')) {
  suggest(field, field.dataset.users, () => undefined);
}

/* A text area has no suggestions: a field above it adds a line for each user. */
for (const area of document.querySelectorAll('textarea[data-users]')) {
  const label = document.createElement('label');
  label.htmlFor = `${area.id}-find`;
  label.textContent = 'Find a user by name or e-mail address';
  const input = document.createElement('input');
  Object.assign(input, { id: label.htmlFor, type: 'search', autocomplete: 'off', maxLength: 200 });
  const chooseListed = () => area.closest('form')?.querySelector('input[name="users"][value="listed"]')?.click();
  area.addEventListener('input', chooseListed);
  const add = (value) => {
    const lines = area.value.split('\n').filter((line) => line.trim() !== '');
    if (!lines.includes(value)) lines.push(value);
    area.value = lines.join('\n');
    input.value = '';
    chooseListed();
    input.focus();
  };
  const field = document.createElement('div');
  field.className = 'field';
  field.append(label, input);
  area.closest('.field').before(field);
  suggest(input, area.dataset.users, add);
  input.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter') return;
    // The form is not meant yet.
    event.preventDefault();
    const value = input.value.trim();
    if (value.includes('@')) add(value);
  });
}
