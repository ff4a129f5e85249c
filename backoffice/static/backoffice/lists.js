// Lists: tick rows (Shift for a range), all that match, Escape clears; narrow long choices by typing.
// Without this module the bar of verbs is always there and the boxes are ordinary ones; the box that
// ticks a whole page, and the field that narrows choices, are hidden.

let last = null;

const picks = () => [...document.querySelectorAll("[data-pick]")];
const bar = () => document.querySelector("[data-bulk]");

function show() {
  const form = bar();
  if (!form) return;
  const boxes = picks();
  const ticked = boxes.filter((box) => box.checked).length;
  const everything = form.querySelector("[data-everything]");
  const whole = boxes.length > 0 && ticked === boxes.length;
  if (!whole) everything.checked = false;
  form.toggleAttribute("data-on", ticked > 0);
  everything.closest(".all").toggleAttribute("data-on", whole);
  const words = everything.checked ? everything.dataset.everything : String(ticked);
  form.querySelector("[data-picked]").textContent = words;
  for (const box of document.querySelectorAll("[data-pick-all]")) {
    box.checked = whole;
    box.indeterminate = ticked > 0 && !whole;
  }
}

function clear() {
  for (const box of picks()) box.checked = false;
  last = null;
  show();
}

document.addEventListener("click", (event) => {
  const box = event.target.closest?.("[data-pick]");
  if (box) {
    const boxes = picks();
    if (event.shiftKey && last?.isConnected) {
      const [from, to] = [boxes.indexOf(last), boxes.indexOf(box)].sort((a, b) => a - b);
      for (const one of boxes.slice(from, to + 1)) one.checked = box.checked;
    }
    last = box;
    show();
  } else if (event.target.closest?.("[data-unpick]")) {
    clear();
  }
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-pick-all]")) {
    for (const box of picks()) box.checked = event.target.checked;
    show();
  } else if (event.target.matches("[data-everything]")) {
    show();
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && bar()?.hasAttribute("data-on") && !document.querySelector("details[data-pop][open], dialog[open]")) {
    clear();
  } else if (event.key === "Enter" && event.target.matches?.("[data-narrow], [data-pick], [data-everything]")) {
    event.preventDefault();
  }
}, true);

document.addEventListener("input", (event) => {
  if (!event.target.matches("[data-narrow]")) return;
  const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const option of event.target.parentElement.querySelectorAll(".options .check")) {
    const text = option.textContent.toLowerCase();
    option.hidden = !words.every((word) => text.includes(word)) && !option.querySelector("input").checked;
  }
});

// A panel that would leave the window opens toward its middle.
document.addEventListener("toggle", (event) => {
  const pop = event.target;
  if (!pop.open || !pop.matches("details[data-pop]")) return;
  const panel = pop.querySelector(".panel");
  pop.classList.remove("end");
  if (panel.getBoundingClientRect().right > document.documentElement.clientWidth) pop.classList.add("end");
}, true);

document.addEventListener("htmx:afterSwap", show);
addEventListener("pageshow", show);
show();
