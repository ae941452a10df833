/*
 * Forms of the administration that save something: shows how many fields were changed, and the bar with Save and Discard
 * only then, asks before changes are lost, and enters them again if the form was refused, such as after the end of the
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

function isChanged(field) {
  if (field.options) {
    const standard = [...field.options].find(({ defaultSelected }) => defaultSelected) ?? field.options[0];
    return field.value !== standard?.value;
  }
  return /^(checkbox|radio)$/.test(field.type)
    ? field.checked !== field.defaultChecked
    : field.value !== field.defaultValue;
}

const changesOf = (form) => fieldsOf(form).filter(isChanged).length;

function show(form, prefix = '') {
  const line = form.querySelector('[data-changes]') ?? createLine(form);
  const bar = form.querySelector('[data-changes-bar]');
  const count = changesOf(form);
  // The page shows a form that was sent and not saved: what was changed before is not known here.
  const wasSent = 'unsaved' in form.dataset;
  const words = wasSent ? 'Unsaved changes' : `${count} unsaved ${count === 1 ? 'change' : 'changes'}`;
  line.textContent = count === 0 && !wasSent ? '' : prefix + words;
  if (!bar) return;
  const wasHidden = bar.hidden;
  bar.hidden = count === 0 && !wasSent;
  // The bar that appears must not hide the field in which the user types.
  if (wasHidden && !bar.hidden) document.activeElement.scrollIntoView({ block: 'nearest' });
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

/** The fields, and what the form showed: a change that came meanwhile must be found when the form is sent again. */
const keptFieldsOf = (form) => [...fieldsOf(form), ...form.querySelectorAll('[name="base"][type="hidden"]')];

/** The values in the order of the fields; undefined for a secret. */
const valuesOf = (form) =>
  keptFieldsOf(form).map((field) =>
    field.matches('.secret-field, [type="password"]') ? undefined : [field.name, field.value, field.checked],
  );

/** Enters values that no page has confirmed as saved. A list of fields may have more or fewer rows than it had. */
function restore(form, values) {
  const fields = keptFieldsOf(form);
  for (const value of values) {
    const index = fields.findIndex(({ name }) => name === value?.[0]);
    if (index === -1) continue;
    const [field] = fields.splice(index, 1);
    if (/^(checkbox|radio)$/.test(field.type)) field.checked = value[2];
    else field.value = value[1];
  }
  show(form, 'Sent, but not confirmed as saved. ');
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

const askBeforeLoss = (event) => {
  if (forms.some((each) => each !== sentForm && changesOf(each) > 0)) event.preventDefault();
};

for (const [index, each] of forms.entries()) {
  each.querySelector('[data-discard]')?.addEventListener('click', () => {
    sentForm = each;
  });
  each.addEventListener('input', () => {
    show(each);
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
