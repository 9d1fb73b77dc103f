// Ways to capture a graph, compared: the verdicts, and below them the program and the methods beside each other.

import type { DataTable } from "../datatable";
import { fill, h, on } from "../dom";
import type { Host, Json } from "../host";
import { Links } from "../links";
import { menuButton } from "../overlays";
import { Palette } from "../palette";
import type { Export } from "../pane";
import { Saving } from "../saving";
import { Selection } from "../selection";
import { ends, onChange, Signal } from "../signal";
import { FileNames } from "../sources";
import { divided } from "../grid";
import { TextView } from "../textview";
import { MethodColumn, type Shared, programLines, sourceRows } from "./column";
import type { MethodData, MethodsData } from "./data";
import { firstShown, LEGEND, verdictTable } from "./verdicts";

const VERSIONS: readonly string[] = ["torch", "python"];
const NARROW = 720;
const ROW_PIXELS = 31;

/** `damage` says what of the data was of the wrong kind and is left out. */
export function MethodsShell(root: HTMLElement, data: MethodsData, host: Host, damage = "") {
  const columns = h("div.ex-columns");
  const open = new Map<string, MethodColumn>();
  // Lines are the only elements here, and nothing stands between them and what was made for them.
  const links = new Signal(new Links({ compiles: [] }));
  const palette = Palette(links.value, programLines(data));
  const selection = Selection(links);
  const shared = { data, selection, model: { links, palette: new Signal(palette) }, files: FileNames(data.sources) };
  const shown = new Signal(wanted());
  const table = verdictTable(data, selection, {
    shown: () => shown.value,
    toggle: method => toggle(method),
    open: (method, input) => {
      if (!shown.value.includes(method.name)) toggle(method);
      open.get(method.name)?.open(input);
    },
  });
  const [program, source] = programColumn(shared);
  const hint = h("p.ex-hint", data.timing ? `${LEGEND} Times: ${data.timing}.` : LEGEND);
  const verdicts = h("div.ex-cell.ex-m-verdicts",
    h("div.ex-m-scroll", { tabindex: 0, role: "region", "aria-label": "Verdicts" }, table.element, hint));
  /** Of the height: as much as it needs at first. */
  const share = Math.min(0.5, ((data.methods.length + 3) * ROW_PIXELS) / Math.max(root.clientHeight, 1));
  const body = h("div.ex-column.ex-m-rows",
    ...divided([verdicts, h("div.ex-cell", columns)], "horizontal", [share, 1 - share]));
  const notice = damage ? h("div.ex-notice.ex-warned", { role: "note" },
    h("strong", "⚠ Left out, since it is damaged:"), h("span", damage)) : null;
  fill(root, header(table), ...(notice ? [notice] : []), body);
  const dispose = ends(
    shown.watch(names => arrange(program, names)), shown.watch(() => table.show(data.methods)),
    onChange(shown, names => host.remember("methods.shown", names)),
    host.dark.watch(dark => root.classList.toggle("ex-dark", dark)),
    on(root, "keydown", key), table, source,
    () => open.forEach(each => each.dispose()), () => fill(root),
  );

  function header(table: DataTable<MethodData>): HTMLElement {
    const { data } = shared;
    const saving = Saving(root, host);
    const verdicts: Export = { kind: "txt", name: "verdicts", make: async () => table.text() };
    const items = () => [
      ...saving.whole(data, "comparison",
        "methods.json"), ...saving.items([verdicts, ...[...open.values()].flatMap(each => each.exports())]),
    ];
    const versions = Object.entries(data.environment).filter(([name]) => VERSIONS.includes(name))
      .map(([name, value]) => h("span.ex-badge", { title: "What ran the methods" }, `${name} ${value}`));
    return h(
      "header.ex-header", h("div.ex-title", h("h1", data.title), ...versions),
      h("div.ex-tools", menuButton("Save as a file", "Save", items)),
    );
  }

  function key(event: KeyboardEvent): void {
    const { pinned } = shared.selection;
    if (event.key !== "Escape" || pinned.value === null) return;
    pinned.value = null;
    event.preventDefault();
  }

  /** What was shown in this place before, as far as it is there; as many as there is room for. */
  function wanted(): readonly string[] {
    const { data } = shared;
    const kept: Json | undefined = host.recall("methods.shown");
    const there = (Array.isArray(kept) ? (kept as readonly Json[]) : [])
      .filter(name => data.methods.some(each => each.name === name)) as string[];
    const first = there.length ? there : firstShown(data);
    return root.clientWidth < NARROW ? first.slice(0, 1) : first;
  }

  function toggle({ name }: MethodData): void {
    const { value } = shown;
    shown.value = value.includes(name) ? value.filter(each => each !== name) : [...value, name];
  }

  /** The program and the methods shown, in columns whose borders can be moved. */
  function arrange(program: HTMLElement, names: readonly string[]): void {
    for (const [name, column] of open) {
      if (names.includes(name)) continue;
      column.dispose();
      open.delete(name);
    }
    for (const method of shared.data.methods) {
      if (names.includes(method.name) && !open.has(method.name))
        open.set(method.name, MethodColumn(method, shared, () => toggle(method)));
    }
    const parts = [program, ...names.flatMap(name => open.get(name)?.element ?? [])];
    fill(columns, ...divided(parts, "vertical", parts.map(() => 1 / parts.length)));
  }

  return { dispose };
}

function programColumn(shared: Shared): readonly [HTMLElement, TextView] {
  const { data, model } = shared;
  const text = h("div.ex-body-text");
  const view = TextView(text, shared);
  view.show({ rows: sourceRows(data, model.palette.value), language: "python", label: "The program" });
  const sourceHint = data.sources.length
    ? "Hover over a line, or pin it by a click, to see what each method made of it." : "Its source is not known.";
  return [h("section.ex-column", { "aria-label": "The program" }, h("div.ex-bar", h("h2", "Program")),
    h("div.ex-facts-line", sourceHint), text), view];
}
