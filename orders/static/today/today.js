// Today: the number in the title, and the icon, follow the critical results while the page is open.
// Without this module they are those of when the page was loaded.

// `(2) (3!) Today`: updates come first, and are live.js's.
const [, page] = document.title.match(/^(?:\(\d+\) )?(?:\(\d+!\) )?(.*)$/);

function follow() {
  const tiles = document.getElementById("tiles");
  if (!tiles) return;
  const waiting = Number(tiles.dataset.unacknowledged);
  const [updates] = document.title.match(/^(?:\(\d+\) )?/);
  const title = updates + (waiting ? `(${waiting}!) ${page}` : page);
  if (document.title !== title) document.title = title;
  const icon = document.querySelector("link[rel=icon]");
  if (icon && icon.getAttribute("href") !== tiles.dataset.icon) icon.href = tiles.dataset.icon;
}

document.addEventListener("htmx:afterSettle", follow);
