/* Scrolls the admin menu to the current page on narrow screens, where it is one row. */
const current = document.querySelector('.admin-nav [aria-current]');
const row = current?.closest('.admin-nav');

if (row && row.scrollWidth > row.clientWidth) {
  const [place, frame] = [current.getBoundingClientRect(), row.getBoundingClientRect()];
  row.scrollLeft += place.left - frame.left - (frame.width - place.width) / 2;
}
