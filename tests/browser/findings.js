// What is wrong with the page that is open, as lines of text. Loaded after axe-core.

window.findings = {
  async axe(type, values, without = []) {
    // Closed details take no room, but the axe-core that tests install counts what they hold.
    const shut = [...document.querySelectorAll("details:not([open])")].flatMap((one) => [...one.children].slice(1));
    const rules = Object.fromEntries(without.map((one) => [one, { enabled: false }]));
    const found = await axe.run({ include: [document], exclude: shut }, { resultTypes: ["violations"], runOnly: { type, values }, rules });
    const told = (node) => `${node.target.join(" ")} ${(node.any[0] ?? node.all[0])?.message ?? ""}`.slice(0, 240);
    return found.violations
      .filter((one) => one.impact === "serious" || one.impact === "critical")
      .map((one) => `${one.id}: ${one.nodes.slice(0, 3).map(told).join(" | ")}`);
  },

  // What the content policy refused since the page began to load.
  refused() {
    return new Promise((tell) => {
      const told = ({ body }) => `refused: ${body.effectiveDirective} ${body.blockedURL}`;
      const observer = new ReportingObserver((reports) => tell(reports.map(told)), { types: ["csp-violation"], buffered: true });
      observer.observe();
      setTimeout(() => tell(observer.takeRecords().map(told)), 50);
    });
  },

  // Beyond the window, and not within something that scrolls by itself.
  wide() {
    const over = document.documentElement.scrollWidth - innerWidth;
    if (over <= 0) return [];
    const clipped = (one) => {
      for (let up = one.parentElement; up; up = up.parentElement) {
        if (up !== document.body && getComputedStyle(up).overflowX !== "visible") return true;
      }
      return false;
    };
    const culprits = [...document.querySelectorAll("body *")].filter(
      (one) => one.getBoundingClientRect().right > innerWidth + 1 && !clipped(one),
    );
    return [`scrolls sideways by ${over} px: ${culprits.slice(-3).map(name).join(", ")}`];
  },

  // Smaller than 24 px, with another target less than 12 px from its middle (WCAG 2.5.8).
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
      .filter(([one, box]) => targets.some(([other, its]) => !one.contains(other) && !other.contains(one) && close(box, its)))
      .slice(0, 5)
      .map(([one, box]) => `target of ${box.width.toFixed(0)} x ${box.height.toFixed(0)} px: ${name(one)} ${one.textContent.trim().slice(0, 30)}`);
  },
};

const name = (one) => `${one.tagName.toLowerCase()}${one.id ? `#${one.id}` : ""}.${one.className?.baseVal ?? one.className}`;
