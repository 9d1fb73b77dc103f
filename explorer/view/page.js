// Lights up the chain of the line under the pointer, in every pane of its compile; a click pins it, Escape lets go.
"use strict";
(() => {
  const links = JSON.parse(document.getElementById("links").textContent);
  for (const section of document.querySelectorAll("section.compile")) {
    const up = new Map(Object.entries(links[section.dataset.compile] || {}));
    const down = new Map();
    const rows = new Map();
    const put = (map, key, value) => (map.has(key) ? map.get(key).push(value) : map.set(key, [value]));
    let anonymous = 0;
    for (const row of section.querySelectorAll("[data-id]")) {
      if (!row.dataset.id) row.dataset.id = row.dataset.up ? `line ${anonymous++}` : "";
      if (row.dataset.up && !up.has(row.dataset.id)) up.set(row.dataset.id, row.dataset.up.split(" "));
      if (row.dataset.id) put(rows, row.dataset.id, row);
    }
    for (const [id, causes] of up) for (const cause of causes) put(down, cause, id);
    const closure = (edges, id, found) => {
      const stack = [id];
      while (stack.length) for (const next of edges.get(stack.pop()) || []) if (!found.has(next)) { found.add(next); stack.push(next); }
      return found;
    };
    const chain = (id) => closure(down, id, closure(up, id, new Set([id])));
    let pinned = "";
    const shown = { hot: [], pin: [] };
    const light = (id, style) => {
      for (const row of shown[style]) row.classList.remove(style);
      shown[style] = id ? [...chain(id)].flatMap((each) => rows.get(each) || []) : [];
      for (const row of shown[style]) row.classList.add(style);
    };
    const at = (event) => event.target.closest("[data-id]")?.dataset.id || "";
    section.addEventListener("mouseover", (event) => light(at(event), "hot"));
    section.addEventListener("mouseleave", () => light("", "hot"));
    section.addEventListener("click", (event) => {
      const id = at(event);
      if (!id) return;
      pinned = pinned === id ? "" : id;
      light(pinned, "pin");
      for (const pane of section.querySelectorAll("pre.code")) {
        const first = pane.querySelector(".pin");
        if (first && !pane.contains(event.target)) pane.scrollTop = first.offsetTop - pane.offsetTop - pane.clientHeight / 3;
      }
    });
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") { pinned = ""; light("", "pin"); } });
  }
})();
