// Shortcuts. Pages declare them: `data-key="a"` on a link, button or field is pressed (or focused)
// by that key, `data-rows` marks a list whose rows j and k walk, `data-go` a page behind `g`,
// `data-make` one behind `c` that makes something new.
// One row's own keys win over the page's. Nothing here does harm by itself: a key only presses what
// a hand could press. Keys rest while something is being typed, with modifiers, and, in a dialog,
// all but the dialog's own; <html data-keys="off"> switches the single ones off (WCAG 2.1.4).
// Without this module all of these are links, buttons and fields as usual.

const off = () => document.documentElement.dataset.keys === "off";
const FIELDS = "input:not([type=checkbox], [type=radio], [type=button], [type=submit]), textarea, select, [contenteditable]";
const SEQUENCE_MS = 1200;
const WAYS = { g: "data-go", c: "data-make" };
let first = "";
let since = 0;

const shown = (one) => one.checkVisibility?.({ visibilityProperty: true }) ?? one.offsetParent !== null;
const dialog = () => [...document.querySelectorAll("dialog[open]")].at(-1);

function rows() {
  const list = document.querySelector("[data-rows]") ?? document.querySelector(".table:has(tbody .lead a) tbody");
  return list ? [...list.children].filter((row) => door(row)) : [];
}
const door = (row) => row.querySelector(".lead a, a[href], button, [tabindex='0']");
const here = () => document.activeElement?.closest("[data-rows] > *, .table tbody > tr");

function step(distance) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(here());
  const next = at < 0 ? (distance > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + distance, 0), all.length - 1);
  door(all[next]).focus();
  all[next].scrollIntoView({ block: "nearest" });
}

function declared(key) {
  const inside = dialog();
  const places = inside ? [inside] : [here(), document];
  for (const place of places) {
    for (const one of place?.querySelectorAll(`[data-key="${CSS.escape(key)}"]`) ?? []) {
      if (!one.disabled && shown(one)) return one;
    }
  }
}

function press(one) {
  if (one.matches(FIELDS)) one.focus();
  else if (one.matches("summary")) {
    one.click();
    one.focus();
  } else one.click();
}

function back() {
  const open = document.querySelector("details[data-pop][open]");
  if (open) {
    open.open = false;
    open.querySelector("summary").focus();
    return true;
  }
  const chosen = document.querySelector("[data-clear-selection]");
  if (chosen && shown(chosen)) {
    chosen.click();
    return true;
  }
  if (off()) return false;
  const way = document.querySelector("[data-back]") ?? [...document.querySelectorAll(".crumbs a")].at(-1);
  if (!way) return false;
  way.click();
  return true;
}

function sequence(key) {
  const begun = Date.now() - since < SEQUENCE_MS ? first : "";
  first = "";
  if (WAYS[begun]) {
    const way = document.querySelector(`[${WAYS[begun]}="${CSS.escape(key)}"]`);
    way?.click();
    return Boolean(way);
  }
  return false;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
  const key = event.key;
  const typing = event.target.closest?.(FIELDS);
  if (key === "Escape") {
    if (dialog()) return;
    if (typing) typing.blur();
    else if (!document.querySelector("[data-touched]")) back();
    return;
  }
  if (typing || off() || event.repeat && key !== "j" && key !== "k") return;
  if (dialog()) {
    const own = declared(key);
    if (own) {
      event.preventDefault();
      press(own);
    }
    return;
  }
  if (sequence(key)) return event.preventDefault();
  const own = declared(key);
  if (own) {
    event.preventDefault();
    press(own);
    return;
  }
  const find = document.querySelector("[data-find]");
  if (key === "/" && find) {
    event.preventDefault();
    find.focus();
    find.select();
  } else if (key === "?") help();
  else if (key === "j") step(1);
  else if (key === "k") step(-1);
  else if (key === "x") here()?.querySelector("input[type=checkbox]")?.click();
  else if (WAYS[key]) {
    first = key;
    since = Date.now();
  } else return;
  event.preventDefault();
});

// The list of keys, made of what this page declares.

const common = () => [
  ["/", gettext("Search"), "[data-find]"],
  ["j  k", gettext("Next row, previous row"), "[data-rows], .table tbody .lead a"],
  ["Enter", gettext("Open the row"), "[data-rows], .table tbody .lead a"],
  ["x", gettext("Select the row"), ".table tbody input[type=checkbox]"],
  ["Esc", gettext("Close or go back"), null],
  ["?", gettext("Show this list"), null],
];

const words = (one) => (one.dataset.keyWords ?? one.getAttribute("aria-label") ?? one.labels?.[0]?.textContent ?? one.textContent).trim().replace(/\s+/g, " ").slice(0, 60);

function section(title, lines) {
  if (!lines.length) return "";
  const block = document.createElement("section");
  const head = document.createElement("h3");
  head.textContent = title;
  const list = document.createElement("dl");
  list.className = "keys";
  for (const [keys, what] of lines) {
    const line = document.createElement("div");
    const key = document.createElement("dt");
    for (const one of keys.split("  ")) {
      const cap = document.createElement("kbd");
      cap.textContent = one;
      key.append(cap, " ");
    }
    const told = document.createElement("dd");
    told.textContent = what;
    line.append(key, told);
    list.append(line);
  }
  block.append(head, list);
  return block;
}

export function help() {
  const from = document.activeElement;
  const box = document.createElement("dialog");
  box.className = "box";
  box.setAttribute("aria-labelledby", "keys-title");
  const head = document.createElement("header");
  const title = document.createElement("h2");
  title.id = "keys-title";
  title.textContent = gettext("Keyboard shortcuts");
  const shut = document.createElement("button");
  shut.type = "button";
  shut.className = "btn quiet";
  shut.textContent = gettext("Close");
  shut.addEventListener("click", () => box.close());
  head.append(title, shut);
  const ours = new Map();
  for (const one of document.querySelectorAll("[data-key]")) {
    if (shown(one) && !ours.has(one.dataset.key)) ours.set(one.dataset.key, words(one));
  }
  const anywhere = common().filter(([, , css]) => !css || document.querySelector(css));
  const behind = (key, name) => [...document.querySelectorAll(`[data-${name}]`)].map((one) => [`${key}  ${one.dataset[name]}`, words(one.querySelector(".long") ?? one)]);
  const body = document.createElement("div");
  body.className = "body stack";
  if (off()) {
    const note = document.createElement("p");
    note.textContent = gettext("Single-key shortcuts are turned off in your preferences.");
    body.append(note);
  }
  body.append(section(gettext("On this page"), [...ours]), section(gettext("Everywhere"), anywhere), section(gettext("Go to"), behind("g", "go")), section(gettext("New"), behind("c", "make")));
  const note = document.createElement("p");
  note.className = "muted small";
  const way = document.createElement("a");
  way.href = "/preferences/";
  way.textContent = gettext("Preferences");
  const [before, after] = gettext("You can turn them off in %(link)s.").split("%(link)s");
  note.append(before, way, after);
  body.append(note);
  box.append(head, body);
  box.addEventListener("close", () => {
    box.remove();
    from?.focus?.();
  });
  document.body.append(box);
  box.showModal();
  shut.focus();
}

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-keys-help]")) help();
});

// A screen reader tells the keys with the buttons.
function announce(root) {
  if (off()) return;
  for (const one of root.querySelectorAll("[data-key]")) one.setAttribute("aria-keyshortcuts", one.dataset.key);
}
announce(document);
document.addEventListener("htmx:afterSwap", (event) => announce(event.target));
