// Forms about a person: blocks appear when they are needed, faults are told to screen readers.
// Without this module every block is open, and the server says which ones were needed.

const form = document.querySelector("form[data-person]");
const field = (name) => form.elements.namedItem(name);

function isMinor() {
  const born = new Date(field("dob")?.value ?? "");
  if (Number.isNaN(born.getTime())) return false;
  const adult = new Date(born);
  adult.setFullYear(adult.getFullYear() + 18);
  return adult > new Date();
}

const needed = {
  minor: () => isMinor() || Boolean(field("proxy_first_name")?.value),
  guarantor: () => !["", "Self"].includes(field("relationship")?.value ?? ""),
  "payor-new": () => Boolean(field("payor_new")?.checked),
  "proxy-apart": () => !field("proxy_same_address")?.checked,
  "guarantor-apart": () => !field("guarantor_same_address")?.checked,
};

function show() {
  for (const block of form.querySelectorAll("[data-when]")) block.hidden = !needed[block.dataset.when]();
}

if (form) {
  for (const button of form.querySelectorAll("[data-without-scripts]")) button.remove();
  form.addEventListener("change", show);
  form.addEventListener("input", show);
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches("[data-no-enter]")) event.preventDefault();
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    const told = event.target.id?.match(/^(id_.+)_told$/);
    const input = told && document.getElementById(told[1]);
    if (!input) return;
    const wrong = event.target.querySelector(".error");
    input.toggleAttribute("aria-invalid", Boolean(wrong));
    if (wrong) {
      input.setAttribute("aria-invalid", "true");
      input.setAttribute("aria-describedby", wrong.id);
    }
  });
  show();
  const wrong = document.getElementById("wrong");
  (wrong ?? form.querySelector("input:not([type=hidden])"))?.focus();
}
