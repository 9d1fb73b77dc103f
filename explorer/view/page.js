// Lights up the chain of the line under the pointer, in every pane of its compile, and names it at the foot of the page.
// A click pins it and brings it into view in the other panes; Escape lets go.
"use strict";
(() => {
  const compiles = new Map(Object.entries(JSON.parse(document.querySelector("script[type='application/json']").textContent)));
  const foot = document.querySelector("body > footer");

  for (const section of document.querySelectorAll("section.compile")) {
    const { names, up } = compiles.get(section.dataset.compile);
    const down = up.map(() => []);
    up.forEach((causes, n) => causes.forEach((cause) => down[cause].push(n)));
    const rows = up.map(() => []);
    for (const row of section.querySelectorAll("[data-n]")) rows[row.dataset.n].push(row);

    const closure = (edges, start) => {
      const found = new Set([start]);
      for (const n of found) edges[n].forEach((next) => found.add(next));
      return found;
    };
    const shown = { hot: [], pin: [] };
    const light = (n, style) => {
      for (const row of shown[style]) row.classList.remove(style);
      shown[style] = n === null ? [] : [...closure(up, n), ...closure(down, n)].flatMap((each) => rows[each]);
      for (const row of shown[style]) row.classList.add(style);
    };
    const told = (n) => {
      const chain = [...closure(up, n)].map((each) => names[each]).filter(Boolean);
      const more = chain.length > 12 ? ` and ${chain.length - 12} more` : "";
      return chain.slice(0, 12).join("  ←  ").replaceAll("synthetic:", "no source line: ") + more;
    };
    const at = (event) => {
      const row = event.target.closest("[data-n]");
      return row ? Number(row.dataset.n) : null;
    };
    let pinned = null;
    const tell = (n) => {
      foot.hidden = n === null;
      foot.textContent = n === null ? "" : told(n);
    };
    section.addEventListener("mouseover", (event) => { light(at(event), "hot"); tell(at(event) ?? pinned); });
    section.addEventListener("mouseleave", () => { light(null, "hot"); tell(pinned); });
    section.addEventListener("click", (event) => {
      const n = at(event);
      if (n === null) return;
      pinned = pinned === n ? null : n;
      light(pinned, "pin");
      for (const pane of section.querySelectorAll("pre.code")) {
        const first = pane.querySelector(".pin");
        if (first && !pane.contains(event.target)) pane.scrollTop = first.offsetTop - pane.offsetTop - pane.clientHeight / 3;
      }
    });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || pinned === null) return;
      pinned = null;
      light(null, "pin");
      tell(null);
    });
  }
})();
