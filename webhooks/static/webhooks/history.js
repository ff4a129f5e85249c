// The slider of past moments: it names the moment at which it is, and follows what the page shows.
// Without this module it names the moment that is shown; "Show this time" and the list of moments lead
// to another.

const slider = document.getElementById("id_stop");

function name() {
  const link = document.querySelectorAll("#stops a")[slider.value];
  const words = link ? link.textContent.trim() : "";
  slider.setAttribute("aria-valuetext", words);
  document.getElementById("stop-words").textContent = words;
}

if (slider) {
  slider.addEventListener("input", name);
  document.addEventListener("htmx:afterSwap", () => {
    slider.value = document.getElementById("then").dataset.stop;
    name();
  });
  name();
}
