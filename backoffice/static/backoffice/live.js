// News of open pages: `components/live.html` says what the page shows and what it has seen; here it
// is asked, every 1.5 seconds while the page is looked at, whether there is more. Nothing moves until
// "Show" is pressed, which loads the list (or the page) again where it stands: filters, focus,
// ticks and typed words stay. Without answers it asks once a minute and says how old the page is.
// Without this module the page stays as it was loaded, and a reload shows what is new.

const EVERY_MS = 1500;
const SLOW_MS = 60_000;
const OLD_MS = 45 * 60_000; // The server forgets after an hour.
let count = 0;
let failed = 0;
let asked = Date.now();
let busy = false;
let timer = 0;

const box = () => document.querySelector("[data-live]");
const clock = (moment) => new Date(moment).toLocaleTimeString([], { hour: "numeric", minute: "2-digit", hour12: !("hours24" in document.documentElement.dataset) });
// Whoever acts is not interrupted; the question is asked again when they are done.
const resting = () =>
  document.hidden ||
  document.querySelector("dialog[open], details[data-pop][open], .bulk[data-on], [data-bulk][data-on]");

function tell(words, button = gettext("Show")) {
  const news = box();
  if (!news) return;
  news.hidden = !words;
  const line = news.querySelector("p");
  if (line.textContent !== words) line.textContent = words;
  news.querySelector("button").textContent = button;
  // A page may change its own title meanwhile, as Today does.
  const title = (count ? `(${count}) ` : "") + document.title.replace(/^\(\d+\) /, "");
  if (document.title !== title) document.title = title;
}

function show() {
  if (failed > 1) tell(interpolate(gettext("Live updates paused. Last update: %s"), [clock(asked)]), gettext("Try again"));
  else if (count) tell(interpolate(ngettext("%s update", "%s updates", count), [count.toLocaleString(document.documentElement.lang)]));
  else tell("");
}

async function ask() {
  const news = box();
  if (!news || busy) return;
  busy = true;
  try {
    const query = new URLSearchParams({ since: news.dataset.since, about: news.dataset.live });
    const answer = await fetch(`${news.dataset.url}?${query}`, {
      credentials: "same-origin", redirect: "manual", headers: { "HX-Request": "true", "X-Unattended": "1" }, signal: AbortSignal.timeout(5000),
    });
    if (answer.status === 401) {
      clearTimeout(timer);
      timer = -1;
      count = 0;
      tell(gettext("You are signed out. This page no longer updates."), gettext("Sign in"));
      document.dispatchEvent(new Event("session-ended"));
      return;
    }
    if (!answer.ok) throw new Error(answer.status);
    news.dataset.since = answer.headers.get("X-Cursor") ?? news.dataset.since;
    if (Date.now() - asked > OLD_MS) count = Math.max(count, 1);
    if (answer.status === 200) {
      count += (await answer.json()).count;
      document.body.dispatchEvent(new CustomEvent("news"));
    }
    asked = Date.now();
    failed = 0;
  } catch {
    failed += 1;
  } finally {
    busy = false;
  }
  show();
}

function later() {
  if (timer < 0) return;
  clearTimeout(timer);
  timer = setTimeout(async () => {
    if (!resting()) await ask();
    later();
  }, failed > 1 ? SLOW_MS : EVERY_MS);
}

// Loading again without losing the place.

const named = (one) => [one.form?.getAttribute("action") ?? "", one.form?.id ?? "", one.name, one.type, ["radio", "checkbox"].includes(one.type) ? one.value : ""].join("\n");

// A refused form holds what was typed as if it were its own: the fresh page does not have it.
const refused = (one) => one.form?.method === "post" && one.form.closest("main") && one.matches("textarea, input:not([type=radio], [type=checkbox], [type=submit])") && document.querySelector("[aria-invalid=true], [role=alert]");

function touched(root) {
  const kept = new Map();
  for (const one of root.querySelectorAll("input, textarea, select")) {
    if (["hidden", "file", "submit", "password"].includes(one.type) || !one.name) continue;
    if ("checked" in one && one.checked !== one.defaultChecked) kept.set(named(one), one.checked);
    else if (one.tagName !== "SELECT" && (one.value !== one.defaultValue || one.value && refused(one))) kept.set(named(one), one.value);
    else if (one.tagName === "SELECT" && [...one.options].some((o) => o.selected !== o.defaultSelected)) kept.set(named(one), one.value);
  }
  return kept;
}

function place() {
  const at = document.activeElement;
  if (!at || at === document.body) return () => {};
  const id = at.id && `#${CSS.escape(at.id)}`;
  const href = at.getAttribute("href") && `a[href="${CSS.escape(at.getAttribute("href"))}"]`;
  const name = at.name && `[name="${CSS.escape(at.name)}"]${at.value && at.type !== "text" && at.type !== "search" ? `[value="${CSS.escape(at.value)}"]` : ""}`;
  const [from, to] = [at.selectionStart, at.selectionEnd];
  return (root) => {
    const again = [id, href, name].filter(Boolean).map((css) => root.querySelector(css)).find(Boolean) ?? root.querySelector("[data-rows] a, .lead a, h1");
    if (again && !again.matches("a, button, input, select, textarea, [tabindex]")) again.tabIndex = -1;
    again?.focus({ preventScroll: true });
    if (from != null && again?.setSelectionRange) again.setSelectionRange(from, to);
  };
}

async function load() {
  const news = box();
  const css = news?.closest("#list") ? "#list" : "#page";
  const old = document.querySelector(css);
  if (!old || !window.htmx) return location.reload();
  const kept = touched(old);
  const back = place();
  await window.htmx.ajax("GET", location.pathname + location.search, { target: css, select: css, swap: "outerHTML show:none" });
  const fresh = document.querySelector(css);
  for (const one of fresh.querySelectorAll("input, textarea, select")) {
    const value = kept.get(named(one));
    if (value === undefined) continue;
    if (typeof value === "boolean") one.checked = value;
    else if (one.tagName !== "SELECT" || [...one.options].some((o) => o.value === value)) one.value = value;
    one.dispatchEvent(new Event("change", { bubbles: true }));
  }
  back(fresh);
  const said = document.getElementById("live");
  if (said) said.textContent = gettext("Updated");
}

document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-show-news]")) return;
  if (timer < 0) location.reload();
  else if (failed > 1) ask();
  else load();
});

// A list that was filtered or loaded again has seen everything.
document.addEventListener("htmx:afterSwap", (event) => {
  if (!event.target.querySelector?.("[data-live]") && !box()?.closest("#list, #page")?.isSameNode(event.target)) return;
  count = 0;
  failed = 0;
  asked = Date.now();
  show();
});

document.addEventListener("session-resumed", () => {
  if (timer >= 0) return;
  timer = 0;
  failed = 0;
  show();
  later();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden && box() && !resting()) ask().then(later); });
if (box()) later();
