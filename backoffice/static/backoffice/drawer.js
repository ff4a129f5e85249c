// Links with `data-drawer` open the marked part (`data-drawn`) of their page as a drawer over this one,
// to act while the object stays in view. Without this module, on narrow windows, with a modifier, and
// when anything goes wrong, the link leads to the page itself. The browser keeps the focus inside a
// modal dialog; it goes back to the link when the drawer shuts. Pages add their own by listening:
// "drawer-open" on the document carries the dialog.

// Texts of drawers that were shut without being sent, by the addresses that opened them: whoever shut
// one by mistake finds their words again, while the page underneath stands.
const unsent = new Map();
const texts = (dialog) => [...dialog.querySelectorAll("textarea[name]")].filter((field) => !field.closest("details"));

async function open(link) {
  const answer = await fetch(link.href, { credentials: "same-origin" });
  if (!answer.ok || answer.redirected) throw new Error("not shown");
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const dialog = document.createElement("dialog");
  dialog.className = "drawer";
  const head = document.createElement("header");
  const title = document.createElement("h2");
  title.id = "drawer-title";
  title.textContent = page.querySelector("h1").textContent;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "btn quiet";
  button.textContent = gettext("Close");
  button.addEventListener("click", () => dialog.close());
  head.append(title, button);
  dialog.setAttribute("aria-labelledby", title.id);
  dialog.append(head, drawn(page, link.href));
  document.body.append(dialog);
  const address = link.href;
  for (const field of texts(dialog)) {
    const words = unsent.get(address)?.get(field.name);
    if (words && !field.value) field.value = words;
  }
  dialog.addEventListener("close", () => {
    unsent.set(address, new Map(texts(dialog).map((field) => [field.name, field.value])));
    dialog.remove();
    link.focus();
  });
  dialog.addEventListener("submit", send);
  window.htmx?.process(dialog);
  dialog.showModal();
  (dialog.querySelector("[autofocus], [data-drawn] :is(input:not([type=hidden]), select, textarea)") ?? button).focus();
  document.dispatchEvent(new CustomEvent("drawer-open", { detail: { dialog, button } }));
}

// The marked part of a page. A form without an action would post to the page underneath.
function drawn(page, address) {
  const content = document.adoptNode(page.querySelector("[data-drawn]"));
  content.removeAttribute("aria-label");
  for (const form of content.querySelectorAll("form")) form.action = form.getAttribute("action") || address;
  return content;
}

// What is refused comes back into the drawer. What was taken leads where the form's way back leads.
async function send(event) {
  const form = event.target;
  const back = form.querySelector("a[data-shut]");
  if (event.defaultPrevented || form.method !== "post" || !back) return;
  event.preventDefault();
  const dialog = form.closest("dialog");
  const body = new URLSearchParams(new FormData(form, event.submitter));
  try {
    const answer = await fetch(form.action, { method: "POST", body, credentials: "same-origin", redirect: "manual" });
    if (answer.type === "opaqueredirect") return location.assign(back.href);
    if (answer.status === 401) return document.dispatchEvent(new Event("session-ended"));
    if (answer.status !== 422) throw new Error(answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    dialog.querySelector("[data-drawn]").replaceWith(drawn(page, form.action));
    window.htmx?.process(dialog);
    document.dispatchEvent(new CustomEvent("drawer-open", { detail: { dialog, button: dialog.querySelector("header button") } }));
    const trouble = dialog.querySelector("[role=alert]");
    trouble?.scrollIntoView({ block: "nearest" });
    trouble?.querySelector("a")?.focus();
  } catch {
    // As without this module: one form is one request, however often it is sent.
    if (event.submitter?.name) form.append(Object.assign(document.createElement("input"), { type: "hidden", name: event.submitter.name, value: event.submitter.value }));
    HTMLFormElement.prototype.submit.call(form);
  }
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
