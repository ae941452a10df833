/* Fields that the server checks while they are typed. It checks them again when the form is sent. */
const PAUSE_MILLISECONDS = 400;

export function clearFault(input) {
  input.removeAttribute('aria-invalid');
  document.getElementById(input.getAttribute('aria-describedby')).replaceChildren();
}

/** Shows a text below the input, as the server does. Returns the element that holds it. */
export function showFault(input, text) {
  const container = document.getElementById(input.getAttribute('aria-describedby'));
  const icon = document.createElement('span');
  icon.className = 'icon icon-warning';
  icon.setAttribute('aria-hidden', 'true');
  const label = document.createElement('span');
  label.textContent = text;
  const line = document.createElement('p');
  line.className = 'form-fault';
  line.append(icon, label);
  container.replaceChildren(line);
  return container;
}

/**
 * Sends what was typed when the user pauses.
 * @param isChecked returns true for the fields that are checked
 * @param questionOf returns the body of the request, and what shows the response
 */
export function checkWhileTyping(form, { url, isChecked, questionOf }) {
  let timer;
  let latest;

  const check = async () => {
    const { body, show } = questionOf();
    latest = show;
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'X-CSRF-Token': form.querySelector('[name="_csrf"]').value },
      body: JSON.stringify(body),
    });
    // The user sees the problem when they send the form.
    if (!response.ok) return;
    const result = await response.json();
    // A response to what was typed before may come later.
    if (latest === show) show(result);
  };

  form.addEventListener('input', ({ target }) => {
    if (!isChecked(target)) return;
    clearTimeout(timer);
    timer = setTimeout(() => check().catch(() => undefined), PAUSE_MILLISECONDS);
  });
}
