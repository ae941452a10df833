/* Suggests users by name or e-mail address; `data-users` is the URL of the list. Without this script, users type the full address. */
const MIN_CHARACTERS = 2;
const PAUSE_MS = 150;

let count = 0;

/** Adds suggestions to an input. @param onChoice is called with the chosen value */
function suggest(input, url, onChoice) {
  const list = document.createElement('datalist');
  list.id = `users-${++count}`;
  input.after(list);
  input.setAttribute('list', list.id);
  let timer;
  let lastQuery = '';

  const update = async () => {
    const q = input.value.trim();
    if (q.length < MIN_CHARACTERS || q === lastQuery) return;
    lastQuery = q;
    const response = await fetch(`${url}?${new URLSearchParams({ q, limit: '8' })}`, {
      headers: { accept: 'application/json' },
    }).catch(() => undefined);
    if (!response?.ok || lastQuery !== q) return;
    const { items } = await response.json();
    list.replaceChildren(
      ...items.map(({ id, name, email }) => new Option(name && email ? name : '', email ?? id, false, false)),
    );
  };

  input.addEventListener('input', () => {
    clearTimeout(timer);
    const isChosen = [...list.children].some(({ value }) => value === input.value);
    if (isChosen) onChoice(input.value);
    else timer = setTimeout(update, PAUSE_MS);
  });
}

for (const field of document.querySelectorAll('input[data-users]')) {
  suggest(field, field.dataset.users, () => undefined);
}

/* Text areas cannot have suggestions, so a field above adds a line for each chosen user. */
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
    // Enter adds the user and does not send the form.
    event.preventDefault();
    const value = input.value.trim();
    if (value.includes('@')) add(value);
  });
}
