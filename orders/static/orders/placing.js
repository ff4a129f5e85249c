// Writing an order: go to what a finding is about, choose the first that is found, keep the draft
// when the page is left.

const form = document.getElementById("placing");
let touched = false;

function show(field) {
  for (let fold = field.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  field.scrollIntoView({ block: "center" });
  field.focus();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-fix]");
  if (!link) return;
  const field = document.getElementById(link.hash.slice(1));
  if (!field) return;
  event.preventDefault();
  show(field);
});

if (form) {
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !event.target.matches("[data-panel]")) return;
    // Enter is not "Save": the answer to the last letter may still be under way.
    event.preventDefault();
    const choose = () => form.querySelector("#choices input[type=checkbox]")?.click();
    if (form.querySelector("#id_panel.htmx-request")) document.addEventListener("htmx:afterSettle", choose, { once: true });
    else choose();
  });
  form.addEventListener("input", () => { touched = true; });
  form.addEventListener("htmx:afterRequest", (event) => { if (event.detail.successful && event.detail.elt === form) touched = false; });
  form.addEventListener("submit", () => { touched = false; });
  window.addEventListener("pagehide", () => {
    if (!touched) return;
    const body = new FormData(form);
    body.append("do", "leave");
    navigator.sendBeacon(form.action, body);
  });
  const fault = form.querySelector("[role=alert]");
  const to = location.hash && document.getElementById(location.hash.slice(1));
  if (to) show(to);
  else if (fault) fault.querySelector("a")?.focus();
}
