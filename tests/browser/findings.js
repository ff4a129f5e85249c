// Checks of the open page that return findings as lines of text. Loaded after axe-core.

window.findings = {
  async axe(type, values, without = []) {
    // Closed details take no space, but the installed axe-core checks their content.
    const closed = [...document.querySelectorAll("details:not([open])")].flatMap((one) => [...one.children].slice(1));
    const rules = Object.fromEntries(without.map((one) => [one, { enabled: false }]));
    const found = await axe.run({ include: [document], exclude: closed }, { resultTypes: ["violations"], runOnly: { type, values }, rules });
    const describe = (node) => `${node.target.join(" ")} ${(node.any[0] ?? node.all[0])?.message ?? ""}`.slice(0, 240);
    return found.violations
      .filter((one) => one.impact === "serious" || one.impact === "critical")
      .map((one) => `${one.id}: ${one.nodes.slice(0, 3).map(describe).join(" | ")}`);
  },

  // Violations of the content security policy since the page began to load.
  refused() {
    return new Promise((resolve) => {
      const describe = ({ body }) => `refused: ${body.effectiveDirective} ${body.blockedURL}`;
      const observer = new ReportingObserver((reports) => resolve(reports.map(describe)), { types: ["csp-violation"], buffered: true });
      observer.observe();
      setTimeout(() => resolve(observer.takeRecords().map(describe)), 50);
    });
  },

  // Elements that are wider than the window and not inside a scrolling element.
  wide() {
    const over = document.documentElement.scrollWidth - innerWidth;
    if (over <= 0) return [];
    const clipped = (one) => {
      for (let up = one.parentElement; up; up = up.parentElement) {
        if (up !== document.body && getComputedStyle(up).overflowX !== "visible") return true;
      }
      return false;
    };
    const tooWide = [...document.querySelectorAll("body *")].filter(
      (one) => one.getBoundingClientRect().right > innerWidth + 1 && !clipped(one),
    );
    return [`scrolls sideways by ${over} px: ${tooWide.slice(-3).map(name).join(", ")}`];
  },

  // Class names whose styles are in style sheets that the page does not load. `files`: the class
  // names of each style sheet.
  unstyled(files) {
    const loaded = [...document.styleSheets].map(({ href }) => href ?? "");
    const missing = new Map();
    const known = new Set();
    for (const [file, classes] of Object.entries(files)) {
      const stem = file.replace(/\.css$/, "");
      const isLoaded = loaded.some((href) => href.includes(`/${stem}.`));
      for (const one of classes) isLoaded ? known.add(one) : missing.set(one, file);
    }
    const used = new Set([...document.querySelectorAll("body [class]")].flatMap((one) => [...one.classList]));
    return [...used].filter((one) => missing.has(one) && !known.has(one)).map((one) => `.${one} needs ${missing.get(one)}`);
  },

  // Targets smaller than 24 px, with another target less than 12 px from their center (WCAG 2.5.8).
  small() {
    const targets = [...document.querySelectorAll("a[href], button, summary, select, input:not([type=hidden])")]
      .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.closest(".sr, .skip"))
      .map((one) => (one.matches("[type=checkbox], [type=radio]") && one.labels[0]) || one)
      .map((one) => [one, one.getBoundingClientRect()])
      .filter(([, box]) => box.width > 1);
    const within = (low, at, high) => Math.min(Math.max(at, low), high);
    const close = (a, b) => {
      const [x, y] = [(a.left + a.right) / 2, (a.top + a.bottom) / 2];
      return Math.hypot(x - within(b.left, x, b.right), y - within(b.top, y, b.bottom)) < 12;
    };
    return targets
      .filter(([one, box]) => (box.width < 23.9 || box.height < 23.9) && !one.closest("p, dd"))
      .filter(([one, box]) => targets.some(([other, otherBox]) => !one.contains(other) && !other.contains(one) && close(box, otherBox)))
      .slice(0, 5)
      .map(([one, box]) => `target of ${box.width.toFixed(0)} x ${box.height.toFixed(0)} px: ${name(one)} ${one.textContent.trim().slice(0, 30)}`);
  },
};

const name = (one) => `${one.tagName.toLowerCase()}${one.id ? `#${one.id}` : ""}.${one.className?.baseVal ?? one.className}`;
