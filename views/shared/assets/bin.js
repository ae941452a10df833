/* Keeps the form from sending a whole card number, which the server would also refuse. */
const form = document.querySelector('[data-bin-form]');
const error = document.querySelector('[data-bin-error]');
const input = form?.elements.namedItem('bin');

if (form && error && input) {
  form.addEventListener('submit', (event) => {
    // Users may type the digits in groups, as printed on the card.
    input.value = input.value.replace(/[\s-]/g, '');
    if (input.value.replace(/\D/g, '').length <= 8) return;
    event.preventDefault();
    input.value = '';
    input.setAttribute('aria-invalid', 'true');
    const sentence = document.createElement('p');
    sentence.textContent =
      'You entered more than 8 digits. They were not sent, and are no longer on this page. Enter only the first 6 to 8.';
    error.replaceChildren(sentence);
    input.focus();
  });
}
