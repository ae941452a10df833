/* Owns that the menu of the administration, which is a row to be moved sideways on a narrow screen, begins with where one is. */
const current = document.querySelector('.admin-nav [aria-current]');
const row = current?.closest('.admin-nav');

if (row && row.scrollWidth > row.clientWidth) {
  const [place, frame] = [current.getBoundingClientRect(), row.getBoundingClientRect()];
  row.scrollLeft += place.left - frame.left - (frame.width - place.width) / 2;
}
