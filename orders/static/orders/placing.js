// Writing an order: go to what a finding is about, choose the first that is found.

const form = document.getElementById("placing");

function show(field) {
  for (let fold = field.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  field.scrollIntoView({ block: "center" });
  field.focus();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest(`#placing a[href^="#id_"]`);
  if (!link) return;
  const field = document.getElementById(link.hash.slice(1));
  if (!field) return;
  event.preventDefault();
  show(field);
});

if (form) {
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !event.target.matches("[data-panel]")) return;
    event.preventDefault();
    const word = event.target.value.trim();
    if (!word) return;
    // What is shown may still be the answer to fewer letters: the first of it is not what was meant.
    const choose = () => {
      const shown = document.getElementById("choices");
      if (shown.dataset.word !== word) return false;
      shown.querySelector("input[type=checkbox]")?.click();
      return true;
    };
    if (choose()) return;
    const later = () => { if (choose()) document.removeEventListener("htmx:afterSettle", later); };
    document.addEventListener("htmx:afterSettle", later);
    htmx.trigger(event.target, "search");
  });
  const fault = form.querySelector("[role=alert]");
  const to = location.hash && document.getElementById(location.hash.slice(1));
  if (to) show(to);
  else if (fault) fault.querySelector("a")?.focus();
}
