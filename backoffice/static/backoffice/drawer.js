// Links with `data-drawer` open the marked part (`data-drawn`) of their page as a drawer over this one,
// to act while the object stays in view. Without this module, on narrow windows, with a modifier, and
// when anything goes wrong, the link leads to the page itself. The browser keeps the focus inside a
// modal dialog; it goes back to the link when the drawer shuts. Pages add their own by listening:
// "drawer-open" on the document carries the dialog.

async function open(link) {
  const answer = await fetch(link.href, { credentials: "same-origin" });
  if (!answer.ok || answer.redirected) throw new Error("not shown");
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const content = page.querySelector("[data-drawn]");
  const dialog = document.createElement("dialog");
  dialog.className = "drawer";
  const head = document.createElement("header");
  const title = document.createElement("h2");
  title.id = "drawer-title";
  title.textContent = page.querySelector("h1").textContent;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "btn quiet";
  button.textContent = "Close";
  button.addEventListener("click", () => dialog.close());
  head.append(title, button);
  dialog.setAttribute("aria-labelledby", title.id);
  content.removeAttribute("aria-label");
  // A form without an action would post to the page underneath.
  for (const form of content.querySelectorAll("form")) form.action = form.getAttribute("action") || link.href;
  dialog.append(head, document.adoptNode(content));
  document.body.append(dialog);
  dialog.addEventListener("close", () => {
    dialog.remove();
    link.focus();
  });
  window.htmx?.process(dialog);
  dialog.showModal();
  (dialog.querySelector("[autofocus], [data-drawn] :is(input:not([type=hidden]), select, textarea)") ?? button).focus();
  document.dispatchEvent(new CustomEvent("drawer-open", { detail: { dialog, button } }));
}

document.addEventListener("click", (event) => {
  const dialog = event.target.closest("[data-shut]")?.closest("dialog");
  if (dialog) {
    event.preventDefault();
    dialog.close();
    return;
  }
  const link = event.target.closest("a[data-drawer]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  if (matchMedia("(max-width: 60rem)").matches) return;
  event.preventDefault();
  link.setAttribute("aria-busy", "true");
  open(link)
    .catch(() => location.assign(link.href))
    .finally(() => link.removeAttribute("aria-busy"));
});
