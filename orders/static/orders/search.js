// The search box as a combobox: arrows walk the suggestions, Enter opens the chosen one or asks the
// server for what was typed, Escape returns to where one was. Without this the box is a plain form.
// Ctrl+K (or Cmd+K) opens it as a command palette: it then lists the actions of this page and the
// pages as well, of which what is typed chooses. Actions are what the page declares for its keys
// (`data-key`, `data-make`, `data-go`; see keys.js), pages also the links `data-page`.

const box = document.getElementById("find");
const list = document.getElementById("found");
const results = document.getElementById("found-results");
const actions = document.getElementById("found-actions");
const FIELDS = "input:not([type=checkbox], [type=radio], [type=button], [type=submit]), textarea, select";
let from = null;
let commands = [];

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

// Each action once, those of the record in view first.
function pageCommands() {
  const label = (one) => (one.dataset.keyWords ?? (one.querySelector(".long") ?? one).textContent).trim().replace(/\s+/g, " ");
  const visible = (one) => !one.disabled && one.checkVisibility?.({ visibilityProperty: true });
  const kinds = [
    [gettext("Actions"), "[data-key]", (one) => one.dataset.key],
    [gettext("New"), "[data-make]", (one) => `c ${one.dataset.make}`],
    [gettext("Pages"), "[data-go], [data-page]", (one) => (one.dataset.go ? `g ${one.dataset.go}` : "")],
  ];
  const named = new Map();
  for (const [kind, css, keys] of kinds) {
    for (const element of document.querySelectorAll(css)) {
      const name = label(element);
      const usable = element.matches("a") || visible(element);
      if (name && usable && !named.has(name)) named.set(name, { kind, name, element, keys: keys(element) });
    }
  }
  return [...named.values()];
}

function showCommands() {
  const typed = box.value.trim().toLowerCase();
  const fitting = commands.filter((one) => one.name.toLowerCase().includes(typed));
  actions.replaceChildren();
  for (const kind of new Set(fitting.map((one) => one.kind))) {
    const group = document.createElement("div");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", kind);
    const head = document.createElement("p");
    head.className = "kind";
    head.setAttribute("aria-hidden", "true");
    head.textContent = kind;
    group.append(head);
    for (const one of fitting.filter((each) => each.kind === kind)) {
      const option = document.createElement("div");
      option.setAttribute("role", "option");
      option.id = `found-a${commands.indexOf(one)}`;
      option.append(one.name);
      if (one.keys) {
        const keys = document.createElement("kbd");
        keys.textContent = one.keys;
        option.append(keys);
      }
      option.addEventListener("click", () => run(one));
      group.append(option);
    }
    actions.append(group);
  }
  actions.hidden = !fitting.length;
}

function run(command) {
  closeCommands();
  show(false);
  box.value = "";
  if (command.element.matches(FIELDS)) return command.element.focus();
  from?.focus?.();
  command.element.click();
}

function closeCommands() {
  commands = [];
  actions.replaceChildren();
  actions.hidden = true;
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
  box.setAttribute("aria-controls", "found-actions found-list");
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
      chosen().click();
    } else if (event.key === "Escape") {
      // The field would empty itself.
      event.preventDefault();
      event.stopPropagation();
      closeCommands();
      if (!list.hidden) show(false);
      if (from?.isConnected && from !== document.body) from.focus();
      else box.blur();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== box) from = document.activeElement;
  }, true);
  // Before keys.js and htmx: while something is being typed, too, but not inside a dialog.
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    if (document.querySelector("dialog[open]")) return;
    event.preventDefault();
    if (document.activeElement !== box) from = document.activeElement;
    commands = pageCommands();
    box.focus();
    box.select();
    showCommands();
    show(true);
    choose(options()[0]);
  }, true);
  box.addEventListener("input", () => {
    if (!commands.length) return;
    showCommands();
    choose(options()[0]);
    show(something());
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target !== results) return;
    const command = actions.hidden ? null : chosen();
    choose(command?.isConnected ? command : null);
    show(something() && document.activeElement === box);
    const live = document.getElementById("live");
    const announced = document.getElementById("found-list")?.dataset.announce;
    if (live && announced) live.textContent = announced;
  });
  box.form.addEventListener("focusout", (event) => {
    if (box.form.contains(event.relatedTarget)) return;
    closeCommands();
    show(false);
  });
}
