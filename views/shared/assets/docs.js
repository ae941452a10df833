/* Searches the API reference, and opens the call that the address names. Without a script, the browser's own search does it. */
const search = document.querySelector('[data-docs-search]');
const input = search.querySelector('input');
const count = search.querySelector('[data-docs-count]');
const calls = [...document.querySelectorAll('.docs-call')].map((call) => ({
  call,
  head: call.querySelector('summary').textContent.toLowerCase(),
  text: call.textContent.toLowerCase(),
}));

/** Those whose head has all words stand alone; otherwise those that have them anywhere. */
function filter() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const inHead = calls.filter(({ head }) => words.every((word) => head.includes(word)));
  const found = new Set(
    inHead.length > 0 ? inHead : calls.filter(({ text }) => words.every((word) => text.includes(word))),
  );
  for (const one of calls) one.call.hidden = !found.has(one);
  for (const group of document.querySelectorAll('.docs-group')) {
    group.hidden = !group.querySelector('.docs-call:not([hidden])');
  }
  count.textContent = words.length === 0 ? '' : `${found.size} of ${calls.length} calls`;
}

function openNamed() {
  const named = location.hash === '' ? null : document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const call = named?.closest('.docs-call');
  if (!call) return;
  call.open = true;
  call.scrollIntoView();
}

search.hidden = false;
input.addEventListener('input', filter);
addEventListener('hashchange', openNamed);
// A reload may keep what was typed.
if (input.value !== '') filter();
openNamed();
