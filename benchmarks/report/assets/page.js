// What all parts use, the theme's switch, and the sorting of the table.

const byId = (id) => document.getElementById(id);

/** Return a new element; `children` are nodes or texts, and texts are never read as HTML. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/** Say something to screen readers. */
function announce(words) {
  byId('live').textContent = words;
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

function showTheme() {
  byId('theme').setAttribute('aria-pressed', String(isDark()));
}

byId('theme').addEventListener('click', () => {
  document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
  showTheme();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', showTheme);
showTheme();

/** Compare two cells: numbers as numbers, words as words; cells without a figure come last in either direction. */
function compare(left, right, sign) {
  if (left === '' || right === '') return (left === '') - (right === '');
  const [a, b] = [Number(left), Number(right)];
  const words = Number.isNaN(a) || Number.isNaN(b);
  return sign * (words ? left.localeCompare(right, 'en', { numeric: true }) : a - b);
}

function sortTable(table, heading) {
  const column = heading.cellIndex;
  const numbers = heading.classList.contains('number');
  const current = heading.getAttribute('aria-sort');
  // Of figures the highest come first, of names the first.
  const first = numbers ? 'descending' : 'ascending';
  const other = numbers ? 'ascending' : 'descending';
  const order = current === first ? other : first;
  for (const each of heading.parentElement.cells) each.setAttribute('aria-sort', 'none');
  heading.setAttribute('aria-sort', order);
  const sign = order === 'ascending' ? 1 : -1;
  const body = table.tBodies[0];
  const key = (row) => row.cells[column].dataset.sort;
  body.append(...[...body.rows].sort((a, b) => compare(key(a), key(b), sign)));
  announce(`Sorted by ${heading.textContent.trim()}, ${order}`);
}

for (const heading of byId('figures').tHead.rows[0].cells) {
  heading.firstElementChild.addEventListener('click', () => sortTable(byId('figures'), heading));
}
