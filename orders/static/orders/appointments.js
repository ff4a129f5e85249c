// On top of pages that work without: a ticked box applies itself, the sheet goes to the printer.

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-apply]")) event.target.form.requestSubmit();
});
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-print]")) window.print();
});
