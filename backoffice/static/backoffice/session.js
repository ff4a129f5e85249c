// The end of a session: said before, put off without losing anything, and when it has come, the page
// is covered and keeps what was typed until the same person has signed in again, in any tab.
//
// How long is left is asked of the server, which knows of the other tabs, too; asking alone keeps
// nobody signed in. Whoever types or points on a page is there, even if nothing is sent.
//
// Without this module the session ends just the same, unannounced: the next request leads to the
// sign-in page, and what was typed but not sent is lost. Only requests keep somebody signed in.

const told = document.getElementById("session").dataset;
const ending = document.getElementById("session-ending");
const ended = document.getElementById("session-ended");
const WARNED_MS = told.warned * 1000;
const ASKED_MS = 5000; // while the warning stands: another tab may have put the end off
const LEAVING_MS = [1000, 3000, 10_000, 30_000]; // after a log-out elsewhere, which may take its time
const SPOKEN = [120, 60, 30, 10]; // seconds that are said aloud

let ends = Date.now() + told.left * 1000;
let heard = Date.now(); // when the server last told
let active = 0; // when somebody last did something here
let reported = heard; // until when that is known to the server
let accepted = false; // the end that cannot be put off was read
let next = 0;
let ticking = 0;

for (const kind of ["keydown", "pointerdown", "input"]) {
  document.addEventListener(kind, () => { active = Date.now(); }, { capture: true, passive: true });
}

// Forms of a page that was opened before the last sign-in get the token of now.
function renew(token) {
  for (const field of document.querySelectorAll("input[name=csrfmiddlewaretoken]")) field.value = token;
}

// "ended", or what the server says; null where it does not answer. `idle`: milliseconds since somebody
// did something here; null asks only.
async function ask(idle) {
  const headers = { "X-Unattended": "1" };
  const asked = { headers, credentials: "same-origin", cache: "no-store", signal: AbortSignal.timeout(8000) };
  if (idle !== null) {
    headers["X-CSRFToken"] = document.querySelector("input[name=csrfmiddlewaretoken]").value;
    asked.method = "POST";
    asked.body = new URLSearchParams({ idle: Math.round(idle / 1000) });
  }
  try {
    const answer = await fetch(told.url, asked);
    if (answer.status === 401) return "ended";
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}

async function check(idle = null) {
  clearTimeout(next);
  const said = await ask(idle);
  if (said === "ended") return over();
  if (!said) return idle === null ? unheard() : check();
  if (said.who !== told.who) return location.replace(location.pathname + location.search); // not theirs
  ends = Date.now() + said.left * 1000;
  heard = Date.now();
  if (idle !== null) reported = heard;
  renew(said.token);
  if (ended.open) {
    ended.close();
    document.dispatchEvent(new Event("session-resumed"));
  }
  if (ends - Date.now() > WARNED_MS) calm();
  else if (active > reported && !said.fixed && !ending.open) check(heard - active);
  else warn(said.fixed);
}

// Nobody answers: when its time is over, the session has ended whoever says so.
function unheard() {
  if (Date.now() > ends) over();
  next = setTimeout(() => check(), ASKED_MS);
}

function calm() {
  if (ending.open) ending.close();
  clearInterval(ticking);
  next = setTimeout(() => check(), Math.max(1000, ends - Date.now() - WARNED_MS));
}

function warn(fixed) {
  next = setTimeout(() => check(), Math.max(1000, Math.min(ASKED_MS, ends - Date.now() + 500)));
  if (ending.open || (fixed && accepted)) return;
  for (const part of ending.querySelectorAll("[data-idle], [data-stay]")) part.hidden = fixed;
  for (const part of ending.querySelectorAll("[data-fixed], [data-later]")) part.hidden = !fixed;
  ending.querySelector("[data-trouble]").hidden = true;
  ending.showModal();
  ending.querySelector(fixed ? "[data-later]" : "[data-stay]").focus();
  tick();
  clearInterval(ticking);
  ticking = setInterval(tick, 1000);
}

let spoken = 0;
function tick() {
  const seconds = Math.max(0, Math.round((ends - Date.now()) / 1000));
  ending.querySelector("[data-clock]").textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  const mark = SPOKEN.filter((one) => one >= seconds).at(-1);
  if (mark && mark !== spoken) {
    spoken = mark;
    ending.querySelector("[data-spoken]").textContent = interpolate(ngettext("%s second left", "%s seconds left", seconds), [seconds]);
  }
  if (!seconds) {
    clearInterval(ticking);
    check();
  }
}

function over() {
  clearTimeout(next);
  clearInterval(ticking);
  if (ending.open) ending.close();
  if (ended.open) return;
  ended.showModal();
  ended.querySelector("a").focus();
}

ending.querySelector("[data-stay]").addEventListener("click", stay);
ending.querySelector("[data-later]").addEventListener("click", () => { accepted = true; ending.close(); });
ending.addEventListener("cancel", (event) => {
  event.preventDefault();
  if (ending.querySelector("[data-stay]").hidden) {
    accepted = true;
    ending.close();
  } else stay();
});
ended.addEventListener("cancel", (event) => event.preventDefault());

async function stay() {
  const before = heard;
  await check(0);
  const trouble = ending.querySelector("[data-trouble]");
  trouble.hidden = heard !== before;
  trouble.textContent = gettext("The server cannot be reached. Try again.");
}

// What pages ask by themselves keeps nobody signed in.
document.addEventListener("htmx:configRequest", (event) => {
  if (!event.detail.triggeringEvent?.isTrusted) event.detail.headers["X-Unattended"] = "1";
});

document.addEventListener("session-ended", () => check());
document.addEventListener("visibilitychange", () => { if (!document.hidden) awake(); });
addEventListener("focus", awake);
addEventListener("pageshow", (event) => { if (event.persisted) awake(); });
// Pages that load, or are signed out of, tell the others of this browser.
const tabs = new BroadcastChannel("session");
tabs.addEventListener("message", ({ data }) => { if (data === "left") for (const wait of LEAVING_MS) setTimeout(check, wait); else awake(); });
tabs.postMessage("loaded");
document.addEventListener("submit", ({ target }) => { if (target.matches("[action$='/logout/']")) tabs.postMessage("left"); });
// Come back to, or told: another tab may have signed in or out, or the machine may have slept.
function awake() {
  if (ended.open || ending.open || ends - Date.now() < WARNED_MS || Date.now() - heard > 60_000) check();
}

next = setTimeout(() => check(), Math.max(0, ends - Date.now() - WARNED_MS));
