/* Checks callback URLs as they are typed. */
import { checkWhileTyping, clearFault, showFault } from './checked-input.js';

const form = document.querySelector('[data-check-callback-urls]');

/** Shows which URL was probably meant, with a button that enters it. */
function showSuggestion(input, text, suggestedUrl) {
  const container = showFault(input, text);
  if (!suggestedUrl) return;
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'button-quiet';
  button.textContent = 'Use that URL';
  button.addEventListener('click', () => {
    input.value = suggestedUrl;
    clearFault(input);
    input.dispatchEvent(new Event('input', { bubbles: true }));
    input.focus();
  });
  container.append(button);
}

function questionOf() {
  const inputs = [...form.querySelectorAll('input[name="callbackUrl"]')];
  const filledInputs = inputs.filter((input) => input.value.trim() !== '');
  return {
    body: { id: form.dataset.appId, urls: filledInputs.map((input) => input.value.trim()) },
    show({ faults }) {
      for (const input of inputs) clearFault(input);
      for (const { position, detail, suggestedUrl } of faults) {
        filledInputs[position].setAttribute('aria-invalid', 'true');
        showSuggestion(filledInputs[position], detail, suggestedUrl);
      }
    },
  };
}

if (form) {
  const isChecked = ({ name }) => name === 'callbackUrl';
  checkWhileTyping(form, { url: form.dataset.checkCallbackUrls, isChecked, questionOf });
}
