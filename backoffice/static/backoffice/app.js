// Conveniences of every page: copy an id, print, one open filter at a time, the theme without a
// reload, messages that fade, a button that is pressed once, words for screen readers after a swap,
// and the outcome of a command as soon as it is known. Shortcuts are in keys.js, updates in live.js.
// Without this module buttons that only scripts can serve (`js-only`) are hidden; the theme is a form;
// messages stay; a form that is sent twice is one request for the server; a reload shows the outcome.

const page = document.documentElement;
page.dataset.js = "";

const live = document.getElementById("live");
const say = (words) => { if (live) live.textContent = words; };

function toast(words) {
  let stack = document.querySelector(".toasts");
  if (!stack) {
    stack = document.createElement("div");
    stack.className = "toasts";
    document.body.append(stack);
  }
  const note = document.createElement("p");
  note.className = "toast";
  note.textContent = words;
  stack.append(note);
  say(words);
  fade(note);
}

// Six seconds, but not while somebody is at it.
function fade(note) {
  let timer;
  const start = () => { timer = setTimeout(() => note.remove(), 6000); };
  const stay = () => clearTimeout(timer);
  note.addEventListener("pointerenter", stay);
  note.addEventListener("focusin", stay);
  note.addEventListener("pointerleave", start);
  note.addEventListener("focusout", start);
  start();
}
for (const note of document.querySelectorAll(".toasts .toast:not(.undo)")) fade(note);

document.addEventListener("click", async (event) => {
  for (const pop of document.querySelectorAll("details[data-pop][open]")) {
    if (!pop.contains(event.target)) pop.open = false;
  }
  if (event.target.closest("[data-print]")) window.print();
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    try {
      await navigator.clipboard.writeText(copy.dataset.copy);
      toast(gettext("Copied"));
    } catch {
      toast(copy.dataset.copy);
    }
  }
});

// The server keeps the choice in a cookie; the page only turns at once instead of reloading.
document.addEventListener("submit", async (event) => {
  const button = event.submitter;
  if (!button?.matches("[data-theme-switch]")) return;
  event.preventDefault();
  const form = event.target;
  const body = new FormData(form, button);
  page.dataset.theme = button.value;
  await fetch(form.action, { method: "POST", body, redirect: "manual", credentials: "same-origin" });
  button.value = button.value === "dark" ? "light" : "dark";
  button.querySelector("span").textContent = button.dataset[button.value];
});

// Empty filters stay out of the address.
document.addEventListener("formdata", (event) => {
  if (event.target.method !== "get") return;
  for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
});

document.addEventListener("htmx:configRequest", (event) => {
  if (event.detail.verb !== "get") return;
  const sent = event.detail.formData ?? event.detail.parameters;
  for (const [name, value] of [...sent.entries?.() ?? []]) if (value === "") sent.delete(name);
});

document.addEventListener("htmx:afterSwap", (event) => {
  const total = document.querySelector("[data-total]");
  if (total && event.target.contains(total)) say(total.textContent.trim());
});

// Where the places lie in a strip, the current one is in view.
const strip = document.querySelector(".nav");
const current = strip?.querySelector("[aria-current]");
if (current) strip.scrollLeft = current.offsetLeft - (strip.clientWidth - current.clientWidth) / 2;

// What scrolls sideways and holds nothing to stop at can be reached, and scrolled, by keyboard.
function reachable() {
  for (const box of document.querySelectorAll(".table, .tabs, pre")) {
    const scrolls = box.scrollWidth > box.clientWidth + 1 && !box.querySelector("a[href], button, input, select, summary");
    if (scrolls) box.tabIndex = 0;
    else if (box.tagName !== "PRE" && !box.hasAttribute("role")) box.removeAttribute("tabindex");
  }
}
reachable();
addEventListener("resize", reachable);
document.addEventListener("htmx:afterSettle", reachable);

// What was asked of the service has ended: show what came of it, unless something is being filled in.
// Always by a new GET: a reload would send the form again that led here.
document.addEventListener("input", (event) => { if (event.target.closest("main form")) page.dataset.touched = ""; });
document.addEventListener("command-ended", (event) => {
  const filling = "touched" in page.dataset || document.querySelector("dialog[open], [name=form_id][data-filled]");
  if (!filling) location.replace(event.detail.leads || location.pathname + location.search);
});

// One press is one sending: the button rests until the answer, or until the page is come back to.
document.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (!button?.matches("[data-once]") || event.defaultPrevented) return;
  button.setAttribute("aria-busy", "true");
  setTimeout(() => { button.disabled = true; });
});
addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("[data-once][aria-busy]")) {
    button.removeAttribute("aria-busy");
    button.disabled = false;
  }
});

// A list whose filters cannot be read says so beside them.
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (detail.xhr.status === 400 && detail.target.id === "list") Object.assign(detail, { shouldSwap: true, isError: false });
});
document.addEventListener("htmx:responseError", (event) => {
  const { status } = event.detail.xhr;
  // The token of a form ends with its session: what is sent then is refused before it is asked who sends.
  if (status === 401 || status === 403) document.dispatchEvent(new Event("session-ended"));
  if (status !== 401) toast(gettext("That did not work. Try again."));
});
document.addEventListener("htmx:sendError", () => toast(gettext("No connection. Try again.")));
