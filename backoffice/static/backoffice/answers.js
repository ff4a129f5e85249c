// Keep what somebody typed, ticked or chose while a part of the page is refreshed: the response does
// not have what was changed meanwhile, or was not sent. It is put back into the same field.
// Without scripts no part of a page is refreshed by itself: forms are sent and shown as a whole.

const KEPT_OUT = ["hidden", "file", "submit", "button", "reset", "password"];
const isTick = (one) => one.type === "checkbox" || one.type === "radio";
// `data-same` names an answer whose value is another one after each refresh.
const keyOf = (one) => [one.form?.id || one.form?.getAttribute("action") || "", one.name, isTick(one) ? one.dataset.same ?? one.value : ""].join("\n");
const stateOf = (one) => (isTick(one) ? one.checked : one.value);
const controls = () => [...document.querySelectorAll("main :is(input, select, textarea), dialog :is(input, select, textarea)")].filter((one) => one.name && !KEPT_OUT.includes(one.type));

function isTouched(one) {
  if (isTick(one)) return one.checked !== one.defaultChecked;
  if (one.tagName !== "SELECT") return one.value !== one.defaultValue;
  return [...one.options].some((option) => option.selected !== option.defaultSelected);
}

// By request: every answer as it was when that was sent; then those that the response does not know.
const sent = new WeakMap();
const unknown = new WeakMap();

document.addEventListener("htmx:beforeRequest", ({ detail }) => {
  const { elt, boosted } = detail.requestConfig;
  if (boosted || detail.boosted || elt === document.body) return;
  const names = new Set([...detail.requestConfig.formData.keys()]);
  const answers = new Map();
  for (const one of controls()) answers.set(keyOf(one), { state: stateOf(one), isSent: names.has(one.name) || !isTouched(one) });
  sent.set(detail.xhr, answers);
});

document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const answers = sent.get(detail.xhr);
  if (!answers || !detail.shouldSwap) return;
  const newer = new Map();
  for (const one of controls()) {
    const before = answers.get(keyOf(one));
    if (before && (!before.isSent || before.state !== stateOf(one))) newer.set(keyOf(one), stateOf(one));
  }
  if (newer.size) unknown.set(detail.xhr, newer);
});

document.addEventListener("htmx:afterSwap", ({ detail }) => {
  const newer = unknown.get(detail.xhr);
  if (!newer) return;
  unknown.delete(detail.xhr);
  for (const one of controls()) {
    const state = newer.get(keyOf(one));
    if (state === undefined || state === stateOf(one)) continue;
    if (isTick(one)) one.checked = state;
    else if (one.tagName !== "SELECT" || [...one.options].some((option) => option.value === state)) one.value = state;
    one.dispatchEvent(new Event(one.matches("textarea, input:not([type=checkbox], [type=radio])") ? "input" : "change", { bubbles: true }));
  }
});
