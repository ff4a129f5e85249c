// Booking a visit: the chosen time on the button, how long the times are valid, how many letters of the
// notes are left, keys to move among the times, and, in the drawer over the order (drawer.js), the focus.
// A booking that is refused while somebody watches opens its form again.
// Without this module the list says until when it is valid, the notes how long they may be, and a link
// beside the refusal leads to the form.

const left = () => {
  for (const list of document.querySelectorAll("[data-expires]")) {
    const seconds = Math.max(0, Math.round((Date.parse(list.dataset.expires) - Date.now()) / 1000));
    const words = list.querySelector("[data-left]");
    if (!words) continue;
    const clock = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
    words.textContent = seconds ? interpolate(gettext("Refreshes in %s."), [clock]) : gettext("Refreshing…");
  }
};
left();
setInterval(left, 1000);

const count = (area) => {
  const shown = document.querySelector(`[data-counted="${area.id}"]`);
  if (!shown) return;
  const rest = Number(area.dataset.count) - [...area.value].length;
  shown.textContent = interpolate(ngettext("%s character left.", "%s characters left.", Math.abs(rest)), [rest.toLocaleString(document.documentElement.lang)]);
};
const countAll = () => document.querySelectorAll("[data-count]").forEach(count);
countAll();
document.addEventListener("input", (event) => {
  if (event.target.matches("[data-count]")) count(event.target);
});

// What was refused while somebody watched opens its form again, once, with the nearest times marked.
const CORRECTION = '.asked a[href*="/visit/"][href*="again="]';
for (const link of document.querySelectorAll(CORRECTION)) link.dataset.drawer = "";
document.addEventListener("htmx:afterSwap", () => {
  for (const link of document.querySelectorAll(CORRECTION)) link.dataset.drawer = "";
});
const watched = (strip) => `watched-${strip.id}`;

function resume() {
  for (const strip of document.querySelectorAll(".asked")) {
    if (strip.hasAttribute("hx-get")) {
      sessionStorage.setItem(watched(strip), "");
    } else if (sessionStorage.getItem(watched(strip)) !== null) {
      sessionStorage.removeItem(watched(strip));
      strip.querySelector(CORRECTION)?.click();
    }
  }
}

// The button names the chosen time: "Book Saturday, November 28, 8:00 AM for Ada S."
function nameTime() {
  for (const words of document.querySelectorAll("[data-chosen]")) {
    const slot = words.closest("form").querySelector(".slot:has(input:checked)");
    const day = slot?.closest(".slot-day")?.querySelector("h3").firstChild.textContent.trim();
    // A time that is chosen on another day is a sentence with its day: "Chosen: Sat, Nov 28, 8:00 AM".
    const clock = slot?.querySelector("strong time") ?? slot?.querySelector("strong");
    words.textContent = slot ? ` ${day ? `${day}, ` : ""}${clock.textContent}` : "";
  }
}
nameTime();
document.addEventListener("change", (event) => {
  if (event.target.matches("[name=slot]")) nameTime();
});
for (const news of ["drawer-open", "htmx:afterSettle"]) document.addEventListener(news, nameTime);

// Arrows move among the times, page keys to another day.
document.addEventListener("keydown", (event) => {
  const day = event.target.closest?.(".slot-day");
  if (!day || !["PageDown", "PageUp"].includes(event.key)) return;
  const days = [...day.closest(".slots").querySelectorAll(".slot-day")];
  const next = days[days.indexOf(day) + (event.key === "PageDown" ? 1 : -1)];
  const time = next?.querySelector(".slot input:not(:disabled)");
  if (!time) return;
  event.preventDefault();
  time.checked = true;
  time.focus();
  nameTime();
});

// In a drawer, the focus goes to the time that is chosen, near, or the first.
document.addEventListener("drawer-open", ({ detail: { dialog, button } }) => {
  countAll();
  left();
  const first = [".slot input:checked", ".slot.near input", ".slot input:not(:disabled)", "select"];
  (first.map((css) => dialog.querySelector(css)).find(Boolean) ?? button).focus();
});

if (!document.querySelector("[data-pick]")) resume();
