/* Checks the patterns of routes as they are typed. The server checks them again when the form is sent. */
// In a block, because the scripts of a page share one scope for their names.
{
  const PAUSE_MILLISECONDS = 400;
  const list = document.querySelector('[data-check-routes]');
  const form = list?.closest('form');

  if (form) {
    let timer;

    const show = (input, detail) => {
      input.toggleAttribute('aria-invalid', false);
      const container = document.getElementById(input.getAttribute('aria-describedby'));
      container.replaceChildren();
      if (detail === undefined) return;
      input.setAttribute('aria-invalid', 'true');
      const icon = document.createElement('span');
      icon.className = 'icon icon-warning';
      icon.setAttribute('aria-hidden', 'true');
      const label = document.createElement('span');
      label.textContent = detail;
      const line = document.createElement('p');
      line.className = 'form-fault';
      line.append(icon, label);
      container.append(line);
    };

    const check = async () => {
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
      const response = await fetch(list.dataset.checkRoutes, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'X-CSRF-Token': form.querySelector('[name="_csrf"]').value },
        body: JSON.stringify({ routes: rows.map(({ route }) => route), threadPath: threadPath || undefined }),
      });
      // The user sees the problem when they send the form.
      if (!response.ok) return;
      const { faults } = await response.json();
      for (const { pathInput } of allRows) show(pathInput);
      for (const { position, detail } of faults) show(rows[position].pathInput, detail);
    };

    form.addEventListener('input', (event) => {
      if (!event.target.closest('.route-row') && event.target.name !== 'threadPath') return;
      clearTimeout(timer);
      timer = setTimeout(() => check().catch(() => undefined), PAUSE_MILLISECONDS);
    });
  }
}
