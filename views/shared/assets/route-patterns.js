/* Checks the patterns of routes as they are typed. */
import { checkWhileTyping, clearFault, showFault } from './checked-input.js';

const list = document.querySelector('[data-check-routes]');
const form = list?.closest('form');

function questionOf() {
  const allRows = [...list.querySelectorAll('.route-row')].map((row) => ({
    pathInput: row.querySelector('[name="routePath"]'),
    isRemoved: row.querySelector('[name="routeRemoved"]')?.checked,
    route: {
      name: row.querySelector('[name="routeName"]').value.trim(),
      method: row.querySelector('[name="routeMethod"]').value,
      path: row.querySelector('[name="routePath"]').value.trim(),
    },
  }));
  const rows = allRows.filter(({ isRemoved, route }) => !isRemoved && route.path !== '');
  const threadPath = form.querySelector('[name="threadPath"]').value.trim();
  return {
    body: { routes: rows.map(({ route }) => route), threadPath: threadPath || undefined },
    show({ faults }) {
      for (const { pathInput } of allRows) clearFault(pathInput);
      for (const { position, detail } of faults) {
        rows[position].pathInput.setAttribute('aria-invalid', 'true');
        showFault(rows[position].pathInput, detail);
      }
    },
  };
}

if (form) {
  const isChecked = (input) => input.closest('.route-row') || input.name === 'threadPath';
  checkWhileTyping(form, { url: list.dataset.checkRoutes, isChecked, questionOf });
}
