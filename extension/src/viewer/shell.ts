// The viewer's frame: header, stages, panes, and what they share.

import { page } from "./catalogue";
import { copy, openDialog } from "./dialog";
import { aria, button, fill, h, on, taken, tool } from "./dom";
import { Edits } from "./edits";
import { key, parts, type Key } from "./element";
import { Follower } from "./follow";
import { phrase } from "./format";
import { entry } from "./gather";
import { glance } from "./glance";
import { Grid } from "./grid";
import { about, helpPage, type Texts, textsOf } from "./help";
import type { Host, Json } from "./host";
import { another, kindOf, type Layout, restored, saved, suggested } from "./layout";
import { type Item, menuButton } from "./menu";
import type { Model } from "./model";
import type { Context, Pane, PaneKind } from "./pane";
import type { AnswerData, CompileData, PartData, RecordData } from "./record";
import { reflowed } from "./reflow";
import { remembered } from "./remembered";
import { Saving } from "./saving";
import { SearchBox } from "./searchbox";
import { Selection } from "./selection";
import { Derived, type Dispose, onChange, Signal } from "./signal";
import { StageList } from "./stagelist";
import { fittingPane } from "./stages";
import { Status } from "./status";
import { Trail } from "./trail";

let mounted = 0;

export class Shell {
  readonly #name = `ex${++mounted}`;
  readonly #selection: Selection;
  readonly #follower: Follower;
  readonly #edits: Edits;
  readonly #compile = new Signal("");
  readonly #looked: Derived<CompileData | undefined>;
  readonly #stage = new Signal("");
  readonly #step = new Signal(-1);
  readonly #grid: Grid;
  readonly #search: SearchBox;
  readonly #stages: StageList;
  readonly #disposers: Dispose[] = [];
  readonly #saving: Saving;
  readonly #settings = new Map<string, Signal<Json>>();
  readonly #root: HTMLElement;
  readonly #model: Model;
  readonly #host: Host;
  readonly #kinds: readonly PaneKind[];
  /** The pane that was last shown or touched. */
  #pane = "source";
  /** Shows the answer at a glance alone, or all. */
  readonly #fold = tool("▴", "Summary alone", () => this.#folded(!this.#root.classList.contains("ex-folded")));

  constructor(root: HTMLElement, model: Model, host: Host, kinds: readonly PaneKind[]) {
    this.#root = root;
    this.#model = model;
    this.#looked = new Derived([model.record, this.#compile], () => model.compile(this.#compile.value));
    this.#host = host;
    this.#kinds = kinds;
    this.#selection = new Selection(model.links);
    this.#saving = Saving(root, host);
    this.#choose();
    const follower = (this.#follower = Follower(model, host.live));
    this.#edits = new Edits(model, host.live);
    const context = this.#contextOf("");
    const status = Status(context, follower);
    this.#stages = StageList(context, this.#name, context.setting<boolean>("unchanged", false), follower.activity);
    this.#search = SearchBox(this.#name, model.record, entry => {
      if (entry.pane === "") this.#reason(entry.what);
      else this.show(entry.pane, entry.what);
    });
    const layout = new Signal(this.#firstLayout());
    const sized = new ResizeObserver(() => (layout.value = reflowed(layout.value, this.#kinds.map(kind => kind.id), root.clientWidth)));
    sized.observe(root);
    const header = h("header.ex-header");
    const strip = h("div");
    const body = h("div.ex-body", this.#stages.element);
    const trail = Trail(context);
    fill(root, header, strip, status.element, body, trail.element);
    this.#grid = new Grid(body, this.#name, layout, {
      kinds,
      open: (kind, tab, into) => {
        into.append(this.#answers(kind));
        return kind.open(into, this.#contextOf(tab));
      },
      about: kind => this.#about(kind),
      fronted: pane => {
        const pinned = this.#selection.pinned.value;
        if (pinned !== null) pane.reveal(pinned);
      },
      exports: tab => this.#saving.items(this.#grid.pane(tab)?.exports() ?? []),
    });
    this.#disposers.push(
      onChange(layout, value => host.remember("layout", saved(value))),
      model.record.watch(record => this.#head(header, record)),
      model.record.watch(() => this.#choose()),
      // There is nothing to show of what compiled nothing; a record that grows says nothing yet.
      new Derived([model.record], () => !model.record.value.compiles.length && !!model.record.value.glance?.length).watch(none => this.#folded(none)),
      new Derived([model.record], () => JSON.stringify(model.record.value.glance ?? [])).watch(() => fill(strip, glance(model.record.value.glance ?? [], part => this.#lead(part)))),
      this.#compile.watch(() => this.#chooseStage()),
      host.dark.watch(dark => root.classList.toggle("ex-dark", dark)),
      () => sized.disconnect(), () => follower.end(), () => this.#edits.end(), () => status.dispose(), () => trail.dispose(), () => this.#stages.dispose(), () => this.#search.dispose(), () => this.#grid.dispose(),
    );
    const pressed = (event: KeyboardEvent) => this.#key(event);
    const touched = (event: Event) => {
      const panel = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-panel], [data-tab]") : null;
      if (panel) this.#pane = kindOf(panel.dataset.panel ?? panel.dataset.tab ?? "");
    };
    this.#disposers.push(on(root, "keydown", pressed), on(root, "focusin", touched), on(root, "click", touched));
  }

  dispose(): void {
    this.#disposers.forEach(dispose => dispose());
    fill(this.#root);
  }

  /** Opens a pane, and has it show `what`, which is pinned. */
  show(id: string, what: Key | null): void {
    if (!this.#kinds.some(kind => kind.id === id)) return;
    if (what !== null) {
      const { compile } = parts(what);
      if (compile && this.#model.compile(compile)) this.#compile.value = compile;
      if (this.#selection.pinned.value !== what) this.#selection.pin(what);
    }
    this.#pane = id;
    const open = this.#grid.openTabs;
    const tab = open.find(each => kindOf(each) === id) ?? another(this.#grid.layout.value, id);
    const pane = this.#grid.open(tab);
    if (what !== null) pane?.reveal(what);
  }

  get #front(): Pane | undefined {
    return this.#grid.pane(this.#grid.openTabs.find(each => kindOf(each) === this.#pane) ?? "");
  }

  /** What is looked at: "#PANE/COMPILE/STAGE/ELEMENT/CREATED", as `open` takes it and Record.link of Python makes it. */
  get address(): string {
    const pinned = this.#selection.pinned.value;
    const { walk, choice } = this.#front ?? {};
    const id = walk && walk.at >= 0 ? phrase([choice?.looked.value?.half.name, `step${walk.at}`], ".") : pinned ? parts(pinned).id : "";
    return `#${[this.#pane, this.#compile.value, this.#stage.value, id, this.#model.record.value.created].map(encodeURIComponent).join("/")}`;
  }

  /** Opens an address of this record, and says whether it is one; what it names and is not there stays as it was. */
  open(address: string): boolean {
    const [pane = "", compile = "", stage = "", id = "", created] = address.replace(/^#/, "").split("/").map(decoded);
    if (created !== this.#model.record.value.created) return false;
    if (this.#model.compile(compile)) this.#compile.value = compile;
    const [, half, step] = /^(?:(.+)\.)?step(\d+)$/.exec(id) ?? [];
    this.show(pane, id && !step ? key(this.#compile.value, id) : null);
    if (this.#looked.value?.stages?.some(each => each.id === stage)) this.#stage.value = stage;
    if (step) {
      this.#front?.choice?.showWith(each => each.name === half);
      this.#front?.walk?.to(+step);
    }
    return true;
  }

  #firstLayout(): Layout {
    const kinds = this.#kinds.map(kind => kind.id);
    return restored(this.#host.recall("layout"), new Set(kinds)) ?? suggested(kinds, this.#root.clientWidth);
  }

  #contextOf(tab: string): Context {
    return {
      model: this.#model, selection: this.#selection, host: this.#host, compile: this.#compile, looked: this.#looked, stage: this.#stage, step: this.#step,
      breakpoint: this.#setting<string>("bytecode.breakpoint", ""),
      abilities: this.#follower.abilities, edits: this.#edits,
      setting: <T extends Json>(name: string, initial: T) => this.#setting(tab ? `${tab}.${name}` : name, initial),
      show: (id, what) => this.show(id, what),
      save: what => this.#saving.saveOne(what),
      reason: code => this.#reason(code),
    };
  }

  /** What is asked in a pane beside what it draws, as Python answers it. */
  #answers(kind: PaneKind): HTMLElement {
    const element = h("div.ex-answers");
    const told = new Derived([this.#model.record], () => JSON.stringify(this.#model.record.value.answers?.filter(each => each.pane === kind.id) ?? []));
    this.#disposers.push(told.watch(() => fill(element, ...(JSON.parse(told.value) as AnswerData[]).map(({ title, lines }) =>
      h("details", h("summary", title), h("pre", { tabindex: 0 }, lines.join("\n")))))));
    return element;
  }

  #setting<T extends Json>(name: string, initial: T): Signal<T> {
    return entry(this.#settings, name, () => {
      const [signal, end] = remembered(this.#host, name, initial);
      this.#disposers.push(end);
      return signal as unknown as Signal<Json>;
    }) as unknown as Signal<T>;
  }

  /** The compile that nobody chose. */
  #unchosen = "";

  /** Keeps to a compile that there is, and that somebody chose; else the first that has a graph, which may come later. */
  #choose(): void {
    const compiles = this.#model.record.value.compiles;
    const chosen = this.#compile.value;
    const first = compiles.find(each => each.stages?.some(stage => stage.graph?.nodes.some(node => node.op.startsWith("call"))));
    if (!this.#model.compile(chosen) || (first && chosen === this.#unchosen)) this.#compile.value = this.#unchosen = (first ?? compiles[0])?.id ?? "";
    this.#chooseStage();
  }

  #chooseStage(): void {
    const stages = this.#looked.value?.stages ?? [];
    if (stages.some(each => each.id === this.#stage.value)) return;
    const first = stages.find(each => each.error) ?? stages.find(each => each.name === "capture") ?? stages[0];
    this.#stage.value = first?.id ?? "";
  }

  #head(header: HTMLElement, record: RecordData): void {
    if (header.contains(document.activeElement) && this.#search.element.isConnected) {
      header.querySelector(".ex-title")?.replaceChildren(...titleOf(record));
      return;
    }
    fill(header,
      h("div.ex-title", ...titleOf(record)),
      this.#search.element,
      h(
        "div.ex-tools",
        menuButton("Add a pane", "+ Pane", () => this.#paneItems()),
        menuButton("Save as a file", "Save", () => this.#saveItems()),
        tool("Link", "Copy a link to what is shown", () => void copy(this.#root, "Link", this.#host.link(this.address))),
        button("ex-button", "Why?", () => this.#reason(""), { title: "The reasons that this record names" }),
        tool("?", "Keyboard help", () => this.#help(), "Keys"),
        this.#fold,
      ),
    );
  }

  #folded(folded: boolean): void {
    this.#root.classList.toggle("ex-folded", folded);
    aria(this.#fold, "pressed", folded);
  }

  #lead({ pane, compile }: PartData): void {
    this.#folded(false);
    if (compile && this.#model.compile(compile)) this.#compile.value = compile;
    this.show(pane, null);
  }

  #paneItems(): Item[] {
    return this.#kinds.map(kind => ({ label: kind.title, run: () => this.show(kind.id, null) }));
  }

  #saveItems(): Item[] {
    const inFront = this.#grid.layout.value.columns.flatMap(column => column.cells.map(cell => cell.active));
    const panes = inFront.flatMap(tab => this.#grid.pane(tab)?.exports() ?? []);
    return [...this.#saving.whole(this.#model.record.value), ...this.#saving.items(panes)];
  }

  #explain(title: string, side: boolean, body: (texts: Texts) => readonly HTMLElement[]): void {
    const open = (...shown: readonly HTMLElement[]) => openDialog(this.#root, title, side, ...shown);
    void this.#host.page().then(page => open(...body(textsOf(page)))).catch((error: Error) => open(h("p", error.message)));
  }

  #about(kind: PaneKind): void {
    this.#explain(`${kind.title}: what am I looking at?`, true, ({ panes }) => about(panes[kind.id]!));
  }

  #reason(code: string): void {
    const record = this.#model.record.value;
    const title = record.reasons?.find(each => each.code === code)?.title ?? "Why? The reasons in this record";
    const body = page(
      record, code,
      mention => {
        dialog.close();
        this.#compile.value = mention.compile;
        this.show(mention.pane, mention.what);
      },
      other => {
        dialog.close();
        this.#reason(other);
      },
    );
    const dialog = openDialog(this.#root, title, true, body);
  }

  #help(): void {
    this.#explain("Keys", false, texts => [helpPage(texts)]);
  }

  #key(event: KeyboardEvent): void {
    const typing = event.target instanceof HTMLElement && event.target.matches("input:not([type=range]), textarea, select, [contenteditable=true]");
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if (event.key === "F6") this.#cycle(event.shiftKey ? -1 : 1);
    else if (event.altKey && (event.key === "ArrowDown" || event.key === "ArrowUp")) this.#walk(event.key === "ArrowDown" ? 1 : -1);
    else if (typing || !plain || event.defaultPrevented) return;
    else if (event.key === "/") this.#search.focus();
    else if (event.key === "?") this.#help();
    else if (event.key === "s") this.#stages.focus();
    else if (event.key === "Escape" && this.#selection.pinned.value !== null) this.#selection.pinned.value = null;
    else return;
    taken(event);
  }

  #walk(by: number): void {
    const stages = this.#looked.value?.stages ?? [];
    const at = stages.findIndex(each => each.id === this.#stage.value);
    const next = stages[at + by];
    if (!next) return;
    this.#stage.value = next.id;
    const focused = document.activeElement as HTMLElement | null;
    this.show(fittingPane(next), null);
    if (focused?.isConnected) focused.focus();
  }

  #cycle(by: number): void {
    const stops = [this.#stages.list, ...this.#root.querySelectorAll<HTMLElement>("[role=tab][aria-selected=true]")];
    const holder = (stop: HTMLElement) => stop.closest(".ex-cell") ?? stop;
    const at = stops.findIndex(stop => holder(stop).contains(document.activeElement));
    stops[(at + by + stops.length) % stops.length]?.focus();
  }
}

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
    h("span.ex-badge", { title: "The machine that code was generated for" }, record.target),
  ];
}
