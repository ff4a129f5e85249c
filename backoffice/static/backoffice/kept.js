// Drafts of long forms. htmx stores the draft while somebody types (`hx-post` of `form[data-kept]`);
// this module stores the rest when the page is left.
// Without it the last half second of typing is lost; without scripts "Save draft" stores the form.

const form = document.querySelector("form[data-kept]");
// How often something was typed, by when that was asked to be kept, and by when it was.
let typed = 0, asked = 0, kept = 0;

if (form) {
  // What is sent on leaving may overtake what was sent before: each says how far it was written.
  const page = Math.random().toString(36).slice(2), written = document.createElement("input");
  Object.assign(written, { type: "hidden", name: "written", value: `${page}.0` });
  form.append(written);
  form.addEventListener("input", () => { typed += 1; written.value = `${page}.${typed}`; });
  form.addEventListener("htmx:beforeRequest", (event) => { if (event.detail.elt === form) asked = typed; });
  form.addEventListener("htmx:afterRequest", (event) => { if (event.detail.successful && event.detail.elt === form) kept = asked; });
  form.addEventListener("submit", () => { kept = typed; });
  window.addEventListener("pagehide", () => {
    if (kept === typed) return;
    const body = new FormData(form);
    body.append("do", "leave");
    navigator.sendBeacon(form.action, body);
  });
}
