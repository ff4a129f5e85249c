// Forms that are kept while they are typed: what is not kept yet is, when the page is left.

const form = document.querySelector("form[data-kept]");
// How often something was typed, by when that was asked to be kept, and by when it was.
let typed = 0, asked = 0, kept = 0;

if (form) {
  form.addEventListener("input", () => { typed += 1; });
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
