// The filters of appointments: a ticked box applies itself.
// Without this module the button "Apply" does it.

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-apply]")) event.target.form.requestSubmit();
});
