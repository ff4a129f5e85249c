// On top of pages that work without: a ticked box applies itself.

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-apply]")) event.target.form.requestSubmit();
});
