// Writing an order: go to what a finding is about, choose the first that is found, add diagnosis codes.
// Without this module a finding is a plain link to its field, each code is a button that sends the form,
// and Enter saves it. Without scripts the searches have buttons of their own.

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

// Choose the first of what is shown for a search, as soon as it is the answer to these very letters.
function chooseFirst(box, shown, control) {
  const plain = (text) => text?.trim().replace(/\s+/g, " ");
  const word = plain(box.value);
  if (!word) return;
  const choose = () => {
    const answer = shown();
    if (plain(answer?.dataset.word) !== word) return false;
    answer.querySelector(control)?.click();
    return true;
  };
  if (choose()) return;
  const later = () => { if (choose()) document.removeEventListener("htmx:afterSettle", later); };
  document.addEventListener("htmx:afterSettle", later);
  htmx.trigger(box, "search");
}

const picks = () => [...document.querySelectorAll("#diagnoses .pick")];

function addCode(button) {
  const field = document.getElementById("id_icd_codes"), box = document.getElementById("id_diagnosis");
  const live = document.getElementById("live");
  const typed = field.value.trim(), longer = `${typed} ${button.value}`.trim();
  if (longer.length > field.maxLength) {
    if (live) live.textContent = box.dataset.full;
    return;
  }
  const has = typed.toUpperCase().split(/[\s,;]+/).includes(button.value);
  if (!has) field.value = longer;
  for (const name of ["input", "change"]) field.dispatchEvent(new Event(name, { bubbles: true }));
  if (live) live.textContent = box.dataset.added.replace("{code}", button.value);
  box.value = "";
  box.focus();
  htmx.trigger(box, "search");
}

function walkPicks(event) {
  const all = picks(), at = all.indexOf(document.activeElement), box = document.getElementById("id_diagnosis");
  const next = { ArrowDown: at + 1, ArrowUp: at - 1, Escape: -1 }[event.key];
  if (next === undefined || (event.key === "Escape" && at < 0) || (at < 0 && event.key === "ArrowUp")) return;
  event.preventDefault();
  event.stopPropagation();
  (next < 0 ? box : all[Math.min(next, all.length - 1)] ?? box).focus();
}

if (form) {
  form.addEventListener("click", (event) => {
    const pick = event.target.closest("#diagnoses .pick");
    if (!pick) return;
    event.preventDefault();
    addCode(pick);
  });
  form.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const { target } = event;
    if (target.matches("[data-diagnosis], #diagnoses .pick")) walkPicks(event);
    if (event.key !== "Enter" || !target.matches("[data-panel], [data-diagnosis]")) return;
    event.preventDefault();
    if (target.matches("[data-panel]")) chooseFirst(target, () => document.getElementById("choices"), "input[type=checkbox]");
    else chooseFirst(target, () => document.querySelector("#diagnoses [data-word]"), ".pick");
  });
  const fault = form.querySelector("[role=alert]");
  const to = location.hash && document.getElementById(location.hash.slice(1));
  if (to) show(to);
  else if (fault) fault.querySelector("a")?.focus();
}
