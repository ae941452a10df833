/* Searches the API reference, and opens the call that the URL names. Without this script, users have the browser's search. */
const search = document.querySelector('[data-docs-search]');
const input = search.querySelector('input');
const count = search.querySelector('[data-docs-count]');
const calls = [...document.querySelectorAll('.docs-call')].map((call) => ({
  call,
  head: call.querySelector('summary').textContent.toLowerCase(),
  text: call.textContent.toLowerCase(),
}));

/** Shows the calls whose heading has all words; if there are none, those that contain the words anywhere. */
function filter() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const inHead = calls.filter(({ head }) => words.every((word) => head.includes(word)));
  const matches = new Set(
    inHead.length > 0 ? inHead : calls.filter(({ text }) => words.every((word) => text.includes(word))),
  );
  for (const entry of calls) entry.call.hidden = !matches.has(entry);
  for (const group of document.querySelectorAll('.docs-group')) {
    group.hidden = !group.querySelector('.docs-call:not([hidden])');
  }
  count.textContent = words.length === 0 ? '' : `${matches.size} of ${calls.length} calls`;
}

function openFromHash() {
  const target = location.hash === '' ? null : document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const call = target?.closest('.docs-call');
  if (!call) return;
  call.open = true;
  call.scrollIntoView();
}

search.hidden = false;
input.addEventListener('input', filter);
addEventListener('hashchange', openFromHash);
// A browser may restore the search text after a reload.
if (input.value !== '') filter();
openFromHash();
