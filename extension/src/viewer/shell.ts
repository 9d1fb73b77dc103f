// The viewer's frame: header, stages, panes, and what they share.

import { page } from "./catalogue";
import { copy, openDialog, type MenuItem, menuButton } from "./overlays";
import { aria, button, fill, h, on, taken, tool } from "./dom";
import { Edits, KernelUpdates } from "./kernelupdates";
import { key, parts, type Key } from "./element";
import { phrase } from "./format";
import { entry } from "./collections";
import { glance } from "./glance";
import { Grid } from "./grid";
import { about, helpPage, type Texts, textsOf } from "./help";
import { type Host, type Json, remembered } from "./host";
import { another, kindOf, reflowed, restored, saved, suggested } from "./layout";
import type { Model } from "./model";
import type { Context, Pane, PaneKind } from "./pane";
import type { AnswerData, PartData, RecordData } from "./record";
import { Saving } from "./saving";
import { SearchBox } from "./search";
import { Selection } from "./selection";
import { Derived, type Dispose, onChange, Signal } from "./signal";
import { StageList } from "./stagelist";
import { fittingPane } from "./stages";
import { Status } from "./status";
import { Trail } from "./trail";

let mounted = 0;

export function Shell(root: HTMLElement, model: Model, host: Host, kinds: readonly PaneKind[]) {
  const name = `ex${++mounted}`;
  const compileId = new Signal("");
  const stageId = new Signal("");
  const step = new Signal(-1);
  const disposers: Dispose[] = [];
  const settings = new Map<string, Signal<Json>>();
  /** The pane that was last shown or touched. */
  let lastPane = "source";
  /** Shows the answer at a glance alone, or all. */
  const fold = tool("▴", "Summary alone", () => folded(!root.classList.contains("ex-folded")));
  /** The compile that nobody chose. */
  let unchosen = "";
  const front = (): Pane | undefined => grid.pane(grid.openTabs.find(each => kindOf(each) === lastPane) ?? "");
  const paneItems = (): MenuItem[] => kinds.map(kind => ({ label: kind.title, run: () => show(kind.id, null) }));
  const ids = kinds.map(kind => kind.id);
  const help = () => explain("Keys", false, texts => [helpPage(texts)]);
  const looked = new Derived([model.record, compileId], () => model.compile(compileId.value));
  const selection = Selection(model.links);
  const saving = Saving(root, host);
  choose();
  const follower = KernelUpdates(model, host.live);
  const edits = Edits(model, host.live);
  const context = contextOf("");
  const status = Status(context, follower);
  const stages = StageList(context, name, context.setting<boolean>("unchanged", false), follower.activity);
  const search = SearchBox(name, model.record, entry => {
    if (entry.pane === "") reason(entry.what);
    else show(entry.pane, entry.what);
  });
  const layout = new Signal(restored(host.recall("layout"), new Set(ids)) ?? suggested(ids, root.clientWidth));
  const sized = new ResizeObserver(() => (layout.value = reflowed(layout.value, ids, root.clientWidth)));
  sized.observe(root);
  const header = h("header.ex-header");
  const strip = h("div");
  const body = h("div.ex-body", stages.element);
  const trail = Trail(context);
  fill(root, header, strip, status.element, body, trail.element);
  const grid = Grid(body, name, layout, {
    kinds,
    open: (kind, tab, into) => {
      into.append(answers(kind));
      return kind.open(into, contextOf(tab));
    },
    about: ({ id, title }) => explain(`${title}: what am I looking at?`, true, texts => about(id, texts)),
    fronted: pane => {
      const pinned = selection.pinned.value;
      if (pinned !== null) pane.reveal(pinned);
    },
    exports: tab => saving.items(grid.pane(tab)?.exports() ?? []),
  });
  disposers.push(
    onChange(layout, value => host.remember("layout", saved(value))),
    model.record.watch(record => head(header, record)),
    model.record.watch(choose),
    // There is nothing to show of what compiled nothing; a record that grows says nothing yet.
    new Derived([model.record], () => !model.record.value.compiles.length && !!model.record.value.glance?.length)
      .watch(folded),
    new Derived([model.record], () => JSON.stringify(model.record.value.glance ?? []))
      .watch(() => fill(strip, glance(model.record.value.glance ?? [], part => lead(part)))),
    compileId.watch(chooseStage),
    host.dark.watch(dark => root.classList.toggle("ex-dark", dark)),
    () => sized.disconnect(), () => follower.end(), () => edits.end(), () => status.dispose(), () => trail.dispose(),
    () => stages.dispose(), () => search.dispose(), () => grid.dispose(),
  );
  const touched = (event: Event) => {
    const panel =
      event.target instanceof Element ? event.target.closest<HTMLElement>("[data-panel], [data-tab]") : null;
    if (panel) lastPane = kindOf(panel.dataset.panel ?? panel.dataset.tab ?? "");
  };
  disposers.push(on(root, "keydown", keyed), on(root, "focusin", touched), on(root, "click", touched));

  function dispose(): void {
    disposers.forEach(dispose => dispose());
    fill(root);
  }

  /** Opens a pane, and has it show `what`, which is pinned. */
  function show(id: string, what: Key | null): void {
    if (!kinds.some(kind => kind.id === id)) return;
    if (what !== null) {
      const { compile } = parts(what);
      if (compile && model.compile(compile)) compileId.value = compile;
      if (selection.pinned.value !== what) selection.pin(what);
    }
    lastPane = id;
    const open = grid.openTabs;
    const tab = open.find(each => kindOf(each) === id) ?? another(grid.layout.value, id);
    const pane = grid.open(tab);
    if (what !== null) pane?.reveal(what);
  }

  /** What is looked at: "#PANE/COMPILE/STAGE/ELEMENT/CREATED", as `open` takes it and Record.link of Python makes
   * it. */
  function address(): string {
    const pinned = selection.pinned.value;
    const { walk, choice } = front() ?? {};
    const id = walk && walk.at >= 0
      ? phrase([choice?.looked.value?.half.name, `step${walk.at}`], ".") : pinned ? parts(pinned).id : "";
    const named = [lastPane, compileId.value, stageId.value, id, model.record.value.created];
    return `#${named.map(encodeURIComponent).join("/")}`;
  }

  /** Opens an address of this record, or of whatever record is shown ("#PANE"), and says whether it is one; what it
   * names and is not there stays as it was. */
  function open(address: string): boolean {
    const own = model.record.value.created;
    const [pane = "", compile = "", stage = "", id = "", created = own] =
      address.replace(/^#/, "").split("/").map(decoded);
    if (created !== own) return false;
    if (model.compile(compile)) compileId.value = compile;
    const [, half, step] = /^(?:(.+)\.)?step(\d+)$/.exec(id) ?? [];
    show(pane, id && !step ? key(compileId.value, id) : null);
    if (looked.value?.stages?.some(each => each.id === stage)) stageId.value = stage;
    if (step) {
      front()?.choice?.showWith(each => each.name === half);
      front()?.walk?.to(+step);
    }
    return true;
  }

  function contextOf(tab: string): Context {
    return {
      model, selection, host, compile: compileId, looked, stage: stageId, step, abilities: follower.abilities, edits,
      breakpoint: setting<string>("bytecode.breakpoint", ""), show, save: saving.saveOne, reason,
      setting: <T extends Json>(name: string, initial: T) => setting(tab ? `${tab}.${name}` : name, initial),
    };
  }

  /** What is asked in a pane beside what it draws, as Python answers it. */
  function answers(kind: PaneKind): HTMLElement {
    const element = h("div.ex-answers");
    const answersKey = new Derived([model.record],
      () => JSON.stringify(model.record.value.answers?.filter(each => each.pane === kind.id) ?? []));
    disposers.push(
      answersKey.watch(() => fill(element, ...(JSON.parse(answersKey.value) as AnswerData[]).map(({ title, lines }) =>
      h("details", h("summary", title), h("pre", { tabindex: 0 }, ...lines.map(line => h("div", line))))))));
    return element;
  }

  function setting<T extends Json>(name: string, initial: T): Signal<T> {
    return entry(settings, name, () => {
      const [signal, end] = remembered(host, name, initial);
      disposers.push(end);
      return signal as unknown as Signal<Json>;
    }) as unknown as Signal<T>;
  }

  /** Keeps to a compile that there is, and that somebody chose; else the first that has a graph, which may come
   * later. */
  function choose(): void {
    const compiles = model.record.value.compiles;
    const chosen = compileId.value;
    const first =
      compiles.find(each => each.stages?.some(stage => stage.graph?.nodes.some(node => node.op.startsWith("call"))));
    if (!model.compile(chosen) || (first && chosen === unchosen))
      compileId.value = unchosen = (first ?? compiles[0])?.id ?? "";
    chooseStage();
  }

  function chooseStage(): void {
    const stages = looked.value?.stages ?? [];
    if (stages.some(each => each.id === stageId.value)) return;
    const first = stages.find(each => each.error) ?? stages.find(each => each.name === "capture") ?? stages[0];
    stageId.value = first?.id ?? "";
  }

  function head(header: HTMLElement, record: RecordData): void {
    if (header.contains(document.activeElement) && search.element.isConnected) {
      header.querySelector(".ex-title")?.replaceChildren(...titleOf(record));
      return;
    }
    fill(header,
      h("div.ex-title", ...titleOf(record)),
      search.element,
      h(
        "div.ex-tools",
        menuButton("Add a pane", "+ Pane", paneItems), menuButton("Save as a file", "Save", saveItems),
        tool("Link", "Copy a link to what is shown", () => void copy(root, "Link", host.link(address()))),
        button("ex-button", "Why?", () => reason(""), { title: "The reasons that this record names" }),
        tool("?", "Keyboard help", help, "Keys"), fold,
      ),
    );
  }

  function folded(folded: boolean): void {
    root.classList.toggle("ex-folded", folded);
    aria(fold, "pressed", folded);
  }

  function lead({ pane, compile }: PartData): void {
    folded(false);
    if (compile && model.compile(compile)) compileId.value = compile;
    show(pane, null);
  }

  function saveItems(): MenuItem[] {
    const inFront = grid.layout.value.columns.flatMap(column => column.cells.map(cell => cell.active));
    const panes = inFront.flatMap(tab => grid.pane(tab)?.exports() ?? []);
    return [...saving.whole(model.record.value), ...saving.items(panes)];
  }

  function explain(title: string, side: boolean, body: (texts: Texts) => readonly HTMLElement[]): void {
    const open = (...shown: readonly HTMLElement[]) => openDialog(root, title, side, ...shown);
    void host.page().then(page => open(...body(textsOf(page)))).catch((error: Error) => open(h("p", error.message)));
  }

  function reason(code: string): void {
    const record = model.record.value;
    const title = record.reasons?.find(each => each.code === code)?.title ?? "Why? The reasons in this record";
    const body = page(
      record, code,
      mention => {
        dialog.close();
        compileId.value = mention.compile;
        show(mention.pane, mention.what);
      },
      other => {
        dialog.close();
        reason(other);
      },
    );
    const dialog = openDialog(root, title, true, body);
  }

  function keyed(event: KeyboardEvent): void {
    const typing = event.target instanceof HTMLElement
      && event.target.matches("input:not([type=range]), textarea, select, [contenteditable=true]");
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if (event.key === "F6") cycle(event.shiftKey ? -1 : 1);
    else if (event.altKey && (event.key === "ArrowDown" || event.key === "ArrowUp"))
      walk(event.key === "ArrowDown" ? 1 : -1);
    else if (typing || !plain || event.defaultPrevented) return;
    else if (event.key === "/") search.focus();
    else if (event.key === "?") help();
    else if (event.key === "s") stages.focus();
    else if (event.key === "Escape" && selection.pinned.value !== null) selection.pinned.value = null;
    else return;
    taken(event);
  }

  function walk(by: number): void {
    const stages = looked.value?.stages ?? [];
    const at = stages.findIndex(each => each.id === stageId.value);
    const next = stages[at + by];
    if (!next) return;
    stageId.value = next.id;
    const focused = document.activeElement as HTMLElement | null;
    show(fittingPane(next), null);
    if (focused?.isConnected) focused.focus();
  }

  function cycle(by: number): void {
    const stops = [stages.list, ...root.querySelectorAll<HTMLElement>("[role=tab][aria-selected=true]")];
    const holder = (stop: HTMLElement) => stop.closest(".ex-cell") ?? stop;
    const at = stops.findIndex(stop => holder(stop).contains(document.activeElement));
    stops[(at + by + stops.length) % stops.length]?.focus();
  }

  return { dispose, show, open, get address() { return address(); } };
}

export type Shell = ReturnType<typeof Shell>;

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function titleOf(record: RecordData): HTMLElement[] {
  return [
    h("h1", record.title),
    h("span.ex-badge", { title: "The compiler that made this" }, record.engine),
    h("span.ex-badge", { title: "What code was generated for" }, record.target),
  ];
}
