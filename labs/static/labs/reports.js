// Reports: choose, order and check files before anything is sent, send them with a progress bar; count
// the checked rows after one of them is refreshed.
// Without this module the form sends the files in the order in which the browser lists them, the server
// makes the same checks, and a refused form asks for the files again.

const KINDS = [
  { name: "PDF", starts: [0x25, 0x50, 0x44, 0x46, 0x2d], endings: [".pdf"] },
  { name: "JPEG", starts: [0xff, 0xd8, 0xff], endings: [".jpg", ".jpeg", ".jpe", ".jfif"] },
  { name: "PNG", starts: [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a], endings: [".png"] },
];

const form = document.querySelector("[data-report-upload]");
if (form) uploads(form);

document.addEventListener("htmx:afterSwap", () => {
  const count = document.querySelector("[data-checked]");
  if (count) count.textContent = document.querySelectorAll("[data-row-checked]").length;
});

function uploads(form) {
  const limit = Number(form.dataset.limit);
  const most = Number(form.dataset.most);
  const messages = JSON.parse(form.dataset.messages);
  const input = form.querySelector("input[type=file]");
  const drop = form.querySelector("[data-drop]");
  const list = form.querySelector(".chosen");
  const refused = form.querySelector("#refused");
  const sending = form.querySelector(".sending");
  const bar = sending.querySelector("progress");
  const sent = sending.querySelector("[data-sent]");
  const button = form.querySelector("button[type=submit]");
  const live = document.getElementById("live");
  let chosen = [];
  let under_way = false;

  form.querySelector("[data-plain]")?.remove();

  // A sentence of the page, with values in the places of their names.
  function message(name, values = {}) {
    return messages[name].replace(/\{(\w+)\}/g, (place, key) => values[key] ?? place);
  }

  input.addEventListener("change", () => add([...input.files]));
  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.dataset.over = "";
  });
  drop.addEventListener("dragleave", () => delete drop.dataset.over);
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    delete drop.dataset.over;
    add([...event.dataTransfer.files]);
  });
  window.addEventListener("beforeunload", (event) => {
    if (under_way) event.preventDefault();
  });

  async function add(files) {
    for (const file of files) chosen.push({ file, kind: await kindOf(file) });
    // The files live in `chosen`: the same one can be chosen again after it was removed.
    input.value = "";
    show();
  }

  function problemOf({ file, kind }) {
    if (!file.size) return message("empty", { name: file.name });
    if (!kind) return message("kind", { name: file.name });
    const name = file.name.toLowerCase();
    if (!kind.endings.some((ending) => name.endsWith(ending))) return message("ending", { name: file.name, kind: kind.name, ending: kind.endings[0] });
    if (file.size > limit) return message("large", { name: file.name, size: size(file.size), limit: form.dataset.limitWords });
    return "";
  }

  function problems() {
    const said = [];
    if (!chosen.length) said.push(message("none"));
    if (chosen.length > most) said.push(message("many", { limit: most, count: chosen.length }));
    if (chosen.length > 1 && chosen.some((one) => one.kind?.name === "PDF")) said.push(message("pdf"));
    const total = chosen.reduce((sum, one) => sum + one.file.size, 0);
    if (total > limit) said.push(message("total", { size: size(total), limit: form.dataset.limitWords }));
    for (const one of chosen) {
      const problem = problemOf(one);
      if (problem) said.push(problem);
    }
    return said;
  }

  function show(focus) {
    list.replaceChildren(...chosen.map((one, place) => item(one, place)));
    // The same files in another order: what was said of them, and ticked, is still right.
    if (chosen.length && !focus) {
      const said = problems();
      said.length ? complain(said) : refused.replaceChildren();
      live.textContent = message("chosen", { count: chosen.length });
    }
    if (focus) list.children[focus.place]?.querySelector(`[data-do="${focus.act}"]`)?.focus();
  }

  function item(one, place) {
    const row = document.createElement("li");
    row.append(picture(one));
    const about = document.createElement("span");
    about.className = "about";
    about.append(text("strong", one.file.name), text("span", `${one.kind?.name ?? message("unknown")}, ${size(one.file.size)}`, "size"));
    const problem = problemOf(one);
    if (problem) about.append(text("span", problem, "error"));
    const acts = text("span", "", "acts");
    if (chosen.length > 1) {
      acts.append(act("up", "↑", message("up", { name: one.file.name }), place, place === 0), act("down", "↓", message("down", { name: one.file.name }), place, place === chosen.length - 1));
    }
    acts.append(act("remove", "×", message("remove", { name: one.file.name }), place, false));
    row.append(about, acts);
    return row;
  }

  function act(what, mark, words, place, off) {
    const made = text("button", mark, "btn quiet small");
    made.type = "button";
    made.dataset.do = what;
    made.title = words;
    made.setAttribute("aria-label", words);
    made.disabled = off;
    made.addEventListener("click", () => {
      const [one] = chosen.splice(place, 1);
      const to = what === "up" ? place - 1 : place + 1;
      if (what !== "remove") chosen.splice(to, 0, one);
      show(what === "remove" ? null : { place: to, act: what });
      if (!chosen.length) {
        refused.replaceChildren();
        input.focus();
      }
    });
    return made;
  }

  function picture(one) {
    if (!one.kind || one.kind.name === "PDF") return text("span", one.kind?.name ?? "?", "sheet");
    const image = document.createElement("img");
    image.alt = "";
    const reader = new FileReader();
    reader.addEventListener("load", () => { image.src = reader.result; });
    reader.readAsDataURL(one.file);
    return image;
  }

  function complain(said) {
    const banner = text("div", "", "banner");
    banner.dataset.st = "needs-action";
    banner.setAttribute("role", "alert");
    banner.tabIndex = -1;
    const inside = document.createElement("div");
    inside.append(...said.map((words) => text("p", words)));
    banner.append(inside);
    refused.replaceChildren(banner);
    return banner;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (under_way) return;
    const said = problems();
    if (said.length) {
      complain(said).focus();
      return;
    }
    send();
  });

  function send() {
    const body = new FormData();
    // Fields first, files last: of a body that is too large only the beginning is read.
    for (const [name, value] of new FormData(form)) if (name !== "files") body.append(name, value);
    for (const one of chosen) body.append("files", one.file);
    const request = new XMLHttpRequest();
    request.open("POST", form.action || location.href);
    request.setRequestHeader("Accept", "application/json");
    request.upload.addEventListener("progress", (event) => {
      if (!event.lengthComputable) return;
      bar.value = event.loaded / event.total;
      sent.textContent = event.loaded < event.total ? `${Math.round(100 * bar.value)} %` : message("checking");
    });
    request.addEventListener("load", () => answered(request));
    request.addEventListener("error", () => {
      ended();
      complain([message("offline")]).focus();
    });
    under_way = true;
    sending.hidden = false;
    bar.value = 0;
    sent.textContent = "";
    button.setAttribute("aria-disabled", "true");
    request.send(body);
  }

  function ended() {
    under_way = false;
    sending.hidden = true;
    button.removeAttribute("aria-disabled");
  }

  function answered(request) {
    ended();
    if (request.status === 200) {
      try {
        location.assign(JSON.parse(request.responseText).to);
        return;
      } catch {
        complain([message("signed_out")]).focus();
        return;
      }
    }
    const page = new DOMParser().parseFromString(request.responseText, "text/html");
    const banner = page.querySelector(".banner[role=alert]");
    if (banner) {
      if (banner.dataset.formId) form.elements.form_id.value = banner.dataset.formId;
      refused.replaceChildren(document.importNode(banner, true));
      refused.firstElementChild.focus();
    } else {
      complain([message("failed", { status: request.status })]).focus();
    }
  }
}

async function kindOf(file) {
  const head = new Uint8Array(await file.slice(0, 8).arrayBuffer());
  return KINDS.find((kind) => kind.starts.every((byte, at) => head[at] === byte)) ?? null;
}

function size(bytes) {
  return bytes >= 1024 * 1024 ? `${(bytes / 1024 / 1024).toFixed(1)} MB` : `${Math.ceil(bytes / 1024)} kB`;
}

function text(tag, words, name = "") {
  const made = document.createElement(tag);
  made.textContent = words;
  if (name) made.className = name;
  return made;
}
