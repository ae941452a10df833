/*
 * Lists of fields with a row for each entry: adds and removes rows, and makes rows of a pasted list. Without this script,
 * the page has some empty rows, and a row is removed by emptying it.
 */
const textsOf = (row) => [...row.querySelectorAll('input:not([type="checkbox"])')];
const isEmpty = (row) => textsOf(row).every(({ value }) => value.trim() === '');
const buttonOf = (label, onClick) => {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'secondary';
  button.textContent = label;
  button.addEventListener('click', onClick);
  return button;
};
/** As when a user types: the page checks the list and counts what has changed. */
const announce = (input) => input.dispatchEvent(new Event('input', { bubbles: true }));

function prepare(list) {
  const { rows: noun } = list.dataset;
  const rowsOf = () => [...list.querySelectorAll('[data-row]')];
  const shownRows = () => rowsOf().filter(({ hidden }) => !hidden);
  /** What a new row is made of. */
  const emptyRow = rowsOf().at(-1).cloneNode(true);
  let count = rowsOf().length;

  const number = () => {
    for (const [index, row] of shownRows().entries()) {
      row.querySelector('[data-row-name]').textContent = `${noun} ${index + 1}`;
      row.querySelector('[data-row-remove]').setAttribute('aria-label', `Remove ${noun} ${index + 1}`);
    }
  };

  const withButton = (row) => {
    row.querySelector('[data-row-tick]')?.remove();
    const button = buttonOf('Remove', () => remove(row));
    button.dataset.rowRemove = '';
    row.querySelector('[data-row-end]').append(button);
    return row;
  };

  const add = () => {
    const row = withButton(emptyRow.cloneNode(true));
    for (const element of row.querySelectorAll('[id], [for], [aria-describedby]')) {
      for (const name of ['id', 'for', 'aria-describedby']) {
        const value = element.getAttribute(name);
        if (value) element.setAttribute(name, value.replace(/-\d+/, `-${count}`));
      }
    }
    count += 1;
    rowsOf().at(-1).after(row);
    return row;
  };

  /** The emptied row stays in the form, so that its removal counts as a change. */
  const remove = (row) => {
    for (const input of textsOf(row)) input.value = '';
    const rows = shownRows();
    const next = rows[rows.indexOf(row) + 1] ?? rows[rows.indexOf(row) - 1];
    row.hidden = true;
    announce(textsOf(row)[0]);
    number();
    const target = next ? textsOf(next)[0] : addButton;
    target.focus();
  };

  const addButton = buttonOf(`Add ${noun[0].toLowerCase()}${noun.slice(1)}`, ({ isTrusted }) => {
    const [input] = textsOf(add());
    number();
    if (isTrusted) input.focus();
  });
  addButton.dataset.rowAdd = '';

  /** The first entry replaces what is selected; the others take the empty rows that follow, or new ones. */
  list.addEventListener('paste', (event) => {
    const entries = entriesOf(event.clipboardData.getData('text'));
    const row = event.target.closest('[data-row]');
    if (list.dataset.paste === undefined || entries.length < 2 || !row) return;
    event.preventDefault();
    const emptyRows = [row, ...shownRows().filter((each) => each !== row)].filter(isEmpty);
    let input;
    for (const entry of entries) {
      [input] = textsOf(emptyRows.shift() ?? add());
      input.value = entry;
    }
    // Once for all of them: with each row, a long list would take minutes.
    number();
    announce(input);
    input.focus();
  });

  const rows = rowsOf();
  for (const row of rows.slice(1)) if (isEmpty(row) && !row.querySelector('[aria-invalid]')) row.remove();
  for (const row of rowsOf()) withButton(row);
  rowsOf().at(-1).after(addButton);
  number();
}

/** As `urlsIn` of the server. */
const entriesOf = (text) =>
  text
    .split(/\s+|(?<!["<>])["<>]+(?=https?:\/\/|[\s,;\]]|$)/i)
    .flatMap((word) =>
      word.includes('?') ? [word.replace(/(?<![,;])[,;]+$/, '')] : word.split(/[,;](?=https?:\/\/|$)/i),
    )
    .filter((entry) => !/^[[\],;]*$/.test(entry));

for (const list of document.querySelectorAll('[data-rows]')) prepare(list);
