/* Checks callback URLs as they are typed. The server checks them again when the form is sent. */
const PAUSE_MILLISECONDS = 400;
const form = document.querySelector('[data-callback-form]');

if (form) {
  const inputs = () => [...form.querySelectorAll('input[name="callbackUrl"]')];
  let timer;

  const clear = (input) => {
    input.toggleAttribute('aria-invalid', false);
    document.getElementById(input.getAttribute('aria-describedby')).replaceChildren();
  };

  /** @param suggestedUrl the URL that a button enters in place of the typed one */
  const show = (input, text, suggestedUrl) => {
    const container = document.getElementById(input.getAttribute('aria-describedby'));
    const line = document.createElement('p');
    line.className = 'form-fault';
    const icon = document.createElement('span');
    icon.className = 'icon icon-warning';
    icon.setAttribute('aria-hidden', 'true');
    const label = document.createElement('span');
    label.textContent = text;
    line.append(icon, label);
    container.replaceChildren(line);
    if (!suggestedUrl) return;
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'button-quiet';
    button.textContent = 'Use that URL';
    button.addEventListener('click', () => {
      input.value = suggestedUrl;
      clear(input);
      input.focus();
    });
    container.append(button);
  };

  const check = async () => {
    const filledInputs = inputs().filter((input) => input.value.trim() !== '');
    const response = await fetch(form.dataset.judge, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'X-CSRF-Token': form.querySelector('[name="_csrf"]').value },
      body: JSON.stringify({ urls: filledInputs.map((input) => input.value.trim()) }),
    });
    // The user sees the problem when they send the form.
    if (!response.ok) return;
    const { faults, nearMisses } = await response.json();
    for (const input of inputs()) clear(input);
    for (const { position, detail, suggestedUrl } of nearMisses) show(filledInputs[position], detail, suggestedUrl);
    for (const { position, rule, detail } of faults) {
      filledInputs[position].setAttribute('aria-invalid', 'true');
      show(filledInputs[position], `${detail} (${rule})`);
    }
  };

  form.addEventListener('input', (event) => {
    if (event.target.name !== 'callbackUrl') return;
    clearTimeout(timer);
    timer = setTimeout(() => check().catch(() => undefined), PAUSE_MILLISECONDS);
  });
}
