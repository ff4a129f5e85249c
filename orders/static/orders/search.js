// The search box as a combobox: arrows walk the suggestions, Enter opens the chosen one or asks the
// server for what was typed, Escape returns to where one was. Without this the box is a plain form.

const box = document.getElementById("find");
const list = document.getElementById("found");
let from = null;

const options = () => [...list.querySelectorAll("[role=option]")];
const something = () => list.textContent.trim() !== "";
const chosen = () => list.querySelector("[aria-selected=true]");

function choose(option) {
  chosen()?.removeAttribute("aria-selected");
  if (!option) return box.removeAttribute("aria-activedescendant");
  option.setAttribute("aria-selected", "true");
  option.scrollIntoView({ block: "nearest" });
  box.setAttribute("aria-activedescendant", option.id);
}

function show(open) {
  list.hidden = !open;
  box.setAttribute("aria-expanded", String(open));
  if (!open) choose(null);
}

function walk(distance) {
  const all = options();
  if (!all.length) return;
  const at = all.indexOf(chosen());
  const next = at < 0 && distance < 0 ? all.length - 1 : at + distance;
  choose(next < 0 || next >= all.length ? null : all[next]);
}

if (box && list) {
  box.setAttribute("role", "combobox");
  box.setAttribute("aria-autocomplete", "list");
  box.setAttribute("aria-controls", "found-list");
  show(false);

  box.addEventListener("focus", (event) => {
    from = event.relatedTarget ?? from;
    if (something()) show(true);
  });
  box.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) show(something());
      walk(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter" && chosen() && !list.hidden) {
      event.preventDefault();
      location.assign(chosen().href);
    } else if (event.key === "Escape") {
      // The field would empty itself.
      event.preventDefault();
      event.stopPropagation();
      if (!list.hidden) show(false);
      if (from?.isConnected && from !== document.body) from.focus();
      else box.blur();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== box) from = document.activeElement;
  }, true);
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target !== list) return;
    choose(null);
    show(something() && document.activeElement === box);
    const live = document.getElementById("live");
    const announced = document.getElementById("found-list")?.dataset.announce;
    if (live && announced) live.textContent = announced;
  });
  box.form.addEventListener("focusout", (event) => {
    if (!box.form.contains(event.relatedTarget)) show(false);
  });
}
