/*
 * Forms of the administration that save something: shows how many fields were changed, asks before changes are lost, and enters them again if the form was refused, such as after the end of the
 * session. Until then this tab keeps what was typed, but no secrets. Another user who signs in next does not see it.
 */
const KEY = 'gatehouse-form';
const { user } = document.querySelector('main').dataset;
const forms = [...document.querySelectorAll('main form.form-stack[method="post"]:not([data-saves-nothing])')].filter(
  (form) => !form.closest('[data-confirm]'),
);
/** The form that is being sent, so that leaving the page loses nothing. */
let sentForm;

const fieldsOf = (form) => [...form.elements].filter(({ name, type }) => name && !/^(hidden|submit|file)$/.test(type));

const isBox = ({ type }) => /^(checkbox|radio)$/.test(type);

function isChanged(field) {
  if (field.options) {
    const standard = [...field.options].find(({ defaultSelected }) => defaultSelected) ?? field.options[0];
    return field.value !== standard?.value;
  }
  return isBox(field) ? field.checked !== field.defaultChecked : field.value !== field.defaultValue;
}

const changesOf = (form) => fieldsOf(form).filter(isChanged).length;

function show(form, prefix = '') {
  const line = form.querySelector('[data-changes]') ?? createLine(form);
  const bar = form.querySelector('[data-changes-bar]');
  const count = changesOf(form);
  // The page shows a form that was sent and not saved: what was changed before is not known here.
  const wasSent = 'unsaved' in form.dataset;
  const words = wasSent ? 'Unsaved changes' : `${count} unsaved ${count === 1 ? 'change' : 'changes'}`;
  line.textContent = count > 0 || wasSent ? prefix + words : bar ? 'No unsaved changes' : '';
}

function createLine(form) {
  const line = document.createElement('p');
  line.className = 'fine form-changes';
  line.setAttribute('role', 'status');
  line.dataset.changes = '';
  const buttons = [...form.querySelectorAll('[type="submit"]')].at(-1);
  buttons.parentElement.append(line);
  return line;
}

const askBeforeLoss = (event) => {
  if (forms.some((each) => each !== sentForm && changesOf(each) > 0)) event.preventDefault();
};

/** The fields, and what the form showed: a change that came meanwhile must be found when the form is sent again. */
const keptFieldsOf = (form) => [...fieldsOf(form), ...form.querySelectorAll('[name="base"][type="hidden"]')];

/** The values in the order of the fields, without secrets. */
const valuesOf = (form) =>
  keptFieldsOf(form)
    .filter((field) => !field.matches('.secret-field, [type="password"]'))
    .map(({ name, value, checked }) => ({ name, value, checked }));

/** A box is found by its value, any other field by its position among those with its name: the page may have other rows. */
const isSame = (field, value) => field.name === value.name && (!isBox(field) || field.value === value.value);

/** Enters values that no page has confirmed as saved. Fields that a page adds or lacks are left as they are, but for rows. */
function restore(form, values) {
  for (const button of form.querySelectorAll('[data-row-add]')) {
    const { name } = button.parentElement.querySelector('input');
    const countOf = (fields) => fields.filter((field) => field.name === name).length;
    while (countOf(fieldsOf(form)) < countOf(values)) button.click();
  }
  const fields = keptFieldsOf(form);
  for (const value of values) {
    const position = fields.findIndex((field) => isSame(field, value));
    if (position < 0) continue;
    const [field] = fields.splice(position, 1);
    if (isBox(field)) field.checked = value.checked;
    else field.value = value.value;
  }
  show(form, 'Sent, but not confirmed as saved. ');
  addEventListener('beforeunload', askBeforeLoss);
}

let sent;
try {
  sent = JSON.parse(sessionStorage.getItem(KEY));
  sessionStorage.removeItem(KEY);
} catch {
  // The browser forbids storage: nothing was kept.
}
// The page says that the form was saved, or shows again what was typed.
const isAnswered = document.querySelector('.notice[role], .panel-fresh');
const isOwn = sent?.path === location.pathname && sent.user === user;
const unsavedForm = isOwn && !isAnswered ? forms[sent.form] : undefined;
if (unsavedForm) restore(unsavedForm, sent.values);

for (const [index, each] of forms.entries()) {
  each.querySelector('[data-discard]')?.addEventListener('click', () => {
    sentForm = each;
  });
  each.addEventListener('input', () => {
    show(each);
    // The bar must not hide the field in which the user types.
    document.activeElement.scrollIntoView({ block: 'nearest' });
    // Only now: some browsers do not keep a page with this listener for Back.
    addEventListener('beforeunload', askBeforeLoss);
  });
  each.addEventListener('submit', () => {
    sentForm = each;
    try {
      const { pathname: path } = location;
      sessionStorage.setItem(KEY, JSON.stringify({ user, path, form: index, values: valuesOf(each) }));
    } catch {
      // Without storage, the form is sent all the same.
    }
  });
}

const barForms = forms.filter((form) => form.querySelector('[data-changes-bar]'));
if (!unsavedForm) for (const each of barForms) show(each);

addEventListener('pageshow', ({ persisted }) => {
  sentForm = undefined;
  // A browser may enter typed values again, without an event.
  if (persisted) for (const each of barForms) show(each);
});
