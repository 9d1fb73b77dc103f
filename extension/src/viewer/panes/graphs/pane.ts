// The graphs pane: which graph is looked at, what of it is open, and how it hangs together with the rest of the viewer.

import { fill, h } from "../../dom";
import { key, type Key, parts } from "../../element";
import { fileName } from "../../filename";
import { count } from "../../format";
import type { Context, Export, Pane } from "../../pane";
import { rasterised, standalone } from "../../picture";
import { program } from "../../saving";
import { whyNone } from "../../stages";
import { type Dispose, onChange } from "../../signal";
import { TextView } from "../../textview";
import { Card } from "./card";
import { Drawing } from "./drawing";
import { around, type Group, groupsIn, type Item } from "./groups";
import { KeptList } from "./keptlist";
import { TooLarge } from "./layered";
import { legendOf } from "./legend";
import { NodeTable } from "./nodetable";
import { Openings } from "./openings";
import { allOpen, MOST, opening } from "./openness";
import { paintOf } from "./paint";
import { Reading } from "./reading";
import { countsText, type Mark, type Part, type Scene, sceneOf } from "./scene";
import { savedBy, type Subject } from "./subject";
import { textOf } from "./text";
import { type Settings, settingsOf, type Shown, Toolbar } from "./toolbar";
import { type View, WHAT } from "./views";

let made = 0;

export class GraphsPane implements Pane {
  readonly #settings: Settings;
  readonly #toolbar: Toolbar;
  readonly #drawing: Drawing;
  readonly #table: NodeTable;
  readonly #text: TextView;
  readonly #list: KeptList;
  readonly #tip: Card;
  readonly #card: Card;
  readonly #said = h("div.ex-g-said", { role: "status" });
  readonly #legend = h("div.ex-g-legend", { role: "group", "aria-label": "Legend", tabindex: 0 });
  readonly #empty = h("div.ex-empty", { role: "note" });
  readonly #bodies: { readonly [shown in Shown]: HTMLElement };
  readonly #body: HTMLElement;
  readonly #disposers: Dispose[] = [];
  #read: Reading | null = null;
  #view: View | undefined;
  #scene: Scene | null = null;
  readonly #openings = Openings();
  #drawnFor = "";
  #drawnState = "";
  /** Why the graph is not drawn; "" where it is. */
  #tooLarge = "";
  #ownPin: Key | null = null;
  readonly #context: Context;

  constructor(into: HTMLElement, context: Context) {
    this.#context = context;
    this.#settings = settingsOf(context);
    this.#toolbar = Toolbar(this.#settings, id => this.#choose(id), open => this.#openAll(open), () => this.#nextChange());
    this.#drawing = new Drawing(`ex-g${++made}`, {
      hovered: (mark, x, y) => this.#hovered(mark, x, y),
      chosen: mark => this.#chosen(mark),
      walked: mark => this.#walked(mark),
      toggled: mark => this.#toggled(mark),
      left: mark => this.#left(mark),
    });
    this.#tip = Card(context, null);
    this.#card = Card(context, () => {
      this.#drawing.setCurrent(null);
      this.#card.show(null);
    });
    this.#drawing.element.append(this.#tip.element, this.#card.element);
    this.#table = NodeTable(context.selection, vertex => this.#near(vertex));
    const text = h("div.ex-body-text");
    this.#list = KeptList(context, id => this.reveal(key(context.compile.value, id)));
    this.#bodies = { drawing: this.#drawing.element, table: h("div.ex-g-scroll", { tabindex: 0, "aria-label": "Nodes" }, this.#table.table.element), text };
    this.#body = h("div.ex-g-body", h("div.ex-g-main", ...Object.values(this.#bodies)), this.#list.element);
    into.append(h("div.ex-pane.ex-graphs", this.#toolbar.element, this.#said, this.#empty, this.#body, this.#legend));
    this.#text = TextView(text, context, true);
    this.#watch();
  }

  reveal(what: Key): boolean {
    const { compile, id } = parts(what);
    if (compile !== this.#context.compile.value || !this.#read) return false;
    const read = this.#read;
    const by = this.#settings.by.value;
    const views = [this.#view, ...[...read.views].reverse()].filter(view => view !== undefined);
    const view = views.find(each => read.find(each, by, id) !== undefined);
    if (!view) return false;
    if (view !== this.#view) this.#look(view);
    if (this.#shown === "table") return this.#table.table.reveal(what);
    if (this.#shown === "text") return this.#text.reveal(what);
    return this.#goTo(view, read.find(view, by, id)!);
  }

  exports(): readonly Export[] {
    const [view, read] = [this.#view, this.#read];
    if (!view || !read) return [];
    const name = fileName(`${read.compile.id} ${view.title} graph`);
    const text: Export = { kind: "txt", name, make: async () => view.lines.map(([text]) => text).join("\n") };
    const whole = view.id === view.stage ? [text, program(this.#context.host, name, read.compile.id, view.id)] : [text];
    if (this.#tooLarge) return whole;
    return [
      { kind: "svg", name, make: async () => this.#picture(Infinity) },
      { kind: "png", name, make: async () => rasterised(this.#picture(MOST_PIXELS)) },
      ...whole,
    ];
  }

  dispose(): void {
    this.#disposers.forEach(dispose => dispose());
    for (const each of [this.#toolbar, this.#drawing, this.#table.table, this.#text, this.#list]) each.dispose();
  }

  #watch(): void {
    const { looked, stage, step, selection, host } = this.#context;
    const { shown, by, colouring, changes, kept, beside, legend } = this.#settings;
    const render = () => this.#render();
    this.#disposers.push(
      looked.watch(() => this.#reread()), onChange(stage, () => this.#follow()),
      onChange(step, at => this.#stepped(at)),
      onChange(by, render), onChange(colouring, render), onChange(changes, render), onChange(beside, render),
      shown.watch(() => this.#lay()), kept.watch(() => this.#lay()), legend.watch(() => this.#lay()),
      selection.chain.watch(chain => this.#drawing.light(chain)),
      onChange(selection.pinned, pinned => this.#pinnedElsewhere(pinned)),
      onChange(host.dark, () => requestAnimationFrame(() => this.#drawing.recoloured())),
    );
  }

  #reread(): void {
    const compile = this.#context.looked.value;
    if (!compile) {
      this.#read = null;
      this.#view = undefined;
      return this.#render();
    }
    const id = this.#read?.compile.id === compile.id ? this.#view?.id : undefined;
    this.#read = Reading.of(compile, this.#read);
    this.#view = (id === undefined ? undefined : this.#read.view(id)) ?? this.#read.viewOf(this.#context.stage.value);
    this.#render();
  }

  #follow(): void {
    if (this.#view?.stage === this.#context.stage.value) return;
    const view = this.#read?.viewOf(this.#context.stage.value);
    if (!view || view === this.#view) return;
    this.#view = view;
    this.#render();
  }

  #choose(id: string): void {
    const view = this.#read?.view(id);
    if (view) this.#look(view);
  }

  #look(view: View): void {
    this.#view = view;
    this.#render();
    this.#context.stage.value = view.stage;
  }

  /** What is shown: a graph that is too large to draw, as a table. */
  get #shown(): Shown {
    const { value } = this.#settings.shown;
    return this.#tooLarge && value === "drawing" ? "table" : value;
  }

  #subject(view: View): Subject {
    const subject = this.#read!.subject(view);
    subject.step = view.kind === "captured" && !view.before ? this.#context.step.value : -1;
    return subject;
  }

  /** What tells the states of a view apart: most steps add no node. */
  #stateOf(view: View): string {
    const subject = this.#subject(view);
    return `${subject.step < 0} ${subject.state(view).nodes.size}`;
  }

  /** The captured graph grows and shrinks with the steps of capture; what a step adds is at hand. */
  #stepped(step: number): void {
    const { made = {} } = this.#read?.compile ?? {};
    const view = this.#view;
    if (!this.#scene || view?.kind !== "captured") return;
    this.#drawing.setCurrent(null);
    if (this.#drawnState === this.#stateOf(view)) this.#describe();
    else {
      this.#drawScene();
      this.#lay();
    }
    const [fresh = null] = this.#scene.marks.filter(({ node }) => node && made[node.data.id] === step);
    this.#drawing.setCurrent(fresh);
    if (fresh) this.#drawing.bringNear([fresh]);
  }

  #openIn(subject: Subject, view: View): Set<Group> {
    return this.#openings.of(subject, view, this.#settings.by.value);
  }

  #setOpen(subject: Subject, view: View, open: ReadonlySet<Group>, keep?: Item): void {
    this.#openings.set(subject, view, this.#settings.by.value, open);
    this.#drawScene(keep);
    this.#lay();
  }

  #open(subject: Subject, view: View, item: Item): void {
    const { open, closed } = opening(subject.root(this.#settings.by.value), this.#openIn(subject, view), item);
    this.#setOpen(subject, view, open, item);
    if (closed.length) this.#tell(`Closed ${closed.map(group => group.label).join(", ")}: at most ${MOST} boxes show at once.`);
  }

  #openAll(open: boolean): void {
    for (const part of this.#scene?.parts ?? []) {
      const by = this.#settings.by.value;
      const root = part.subject.root(by);
      this.#openings.set(part.subject, part.view, by, open ? allOpen(root) : new Set([...groupsIn(root)].filter(group => group.kind === "side")));
    }
    this.#drawnFor = "";
    this.#drawScene();
    this.#lay();
  }

  #nextChange(): void {
    const view = this.#view;
    if (!view) return;
    const subject = this.#subject(view);
    const changed = [...subject.changesOf(view).keys()].sort((a, b) => a - b);
    const { at } = this.#drawing;
    const from = at?.item.kind === "leaf" ? at.item.vertex : -1;
    const vertex = changed.find(each => each > from) ?? changed[0];
    if (vertex === undefined) return;
    this.#settings.changes.value = true;
    this.#settings.shown.value = "drawing";
    this.#goTo(view, subject.find(this.#settings.by.value, subject.family.vertices[vertex]!.data.id)!);
  }

  /** Opens what is around an item, and brings it into view. */
  #goTo(view: View, item: Item): boolean {
    const subject = this.#subject(view);
    const open = this.#openIn(subject, view);
    if (around(item).some(group => !open.has(group))) this.#open(subject, view, item.kind === "leaf" ? item : item.parent!);
    const mark = this.#scene?.marks.find(each => each.item === item);
    if (!mark) return false;
    this.#drawing.setCurrent(mark);
    this.#drawing.reveal(mark);
    this.#card.show(mark);
    return true;
  }

  #toggled(mark: Mark): void {
    const { subject, view } = mark.part;
    const group = mark.item as Group;
    if (!mark.open) return this.#open(subject, view, group);
    const open = this.#openIn(subject, view);
    open.delete(group);
    this.#setOpen(subject, view, open, group);
  }

  #left(mark: Mark): void {
    const group = mark.item.parent;
    if (!group?.parent) return;
    const { subject, view } = mark.part;
    const open = this.#openIn(subject, view);
    open.delete(group);
    this.#setOpen(subject, view, open, group);
    const frame = this.#scene?.marks.find(each => each.item === group);
    if (frame) {
      this.#drawing.setCurrent(frame);
      this.#drawing.reveal(frame);
    }
  }

  #hovered(mark: Mark | null, x: number, y: number): void {
    this.#context.selection.hovered.value = mark?.key ?? null;
    this.#tip.show(mark === this.#drawing.at ? null : mark);
    if (mark) this.#tip.place(x, y);
  }

  #walked(mark: Mark | null): void {
    this.#context.selection.hovered.value = mark?.key ?? null;
    if (mark) this.#card.show(mark);
  }

  #chosen(mark: Mark | null): void {
    this.#card.show(mark);
    this.#tip.show(null);
    if (!mark?.key) return;
    this.#ownPin = mark.key;
    this.#context.selection.pin(mark.key);
  }

  /** A row of the table was chosen: the drawing will be there when it is shown. */
  #near(vertex: number): void {
    const node = this.#view && this.#subject(this.#view).state(this.#view).nodes.get(vertex);
    const mark = node && this.#scene?.byKey.get(key(this.#context.compile.value, node.data.id))?.[0];
    if (mark) this.#drawing.setCurrent(mark);
  }

  /** Moves to what was pinned in another pane, where nothing of it is in view. */
  #pinnedElsewhere(pinned: Key | null): void {
    if (pinned === null || pinned === this.#ownPin) {
      this.#ownPin = null;
      return;
    }
    const chain = this.#context.selection.chain.value;
    const marks = this.#scene?.marks.filter(mark => !mark.open && [...this.#keysOf(mark)].some(each => chain.has(each))) ?? [];
    this.#drawing.bringNear(marks);
  }

  *#keysOf(mark: Mark): Iterable<Key> {
    if (mark.key !== null) yield mark.key;
    if (mark.item.kind === "leaf") return;
    const { compile, family } = mark.part.subject;
    for (const vertex of mark.item.vertices) yield key(compile.id, family.vertices[vertex]!.data.id);
  }

  #render(): void {
    const [view, read] = [this.#view, this.#read];
    this.#empty.hidden = view !== undefined && view.graph.nodes.length > 0;
    this.#body.hidden = !this.#empty.hidden;
    const changed = view !== undefined && this.#subject(view).changesOf(view).size > 0;
    const eager = this.#eager() !== undefined && (view?.kind === "joint" || view?.kind === "eager");
    this.#toolbar.offer({ views: read?.views ?? [], view, did: this.#did(), changed, kept: this.#hasSaved(), eager });
    this.#tell("");
    if (!view || !read || !this.#empty.hidden) {
      fill(this.#empty, h("p", (this.#view ? "This graph has no nodes: there was nothing to compute." : whyNone("graph", this.#read?.compile))));
      this.#legend.hidden = true;
      this.#scene = null;
      return;
    }
    this.#drawScene();
    this.#lay();
  }

  #did(): Map<string, string> {
    const did = new Map<string, string>();
    for (const view of this.#read?.views ?? []) {
      const subject = view.before && this.#read?.known(view);
      if (!subject) continue;
      const counts = { added: 0, removed: 0, changed: 0 };
      for (const sign of subject.changesOf(view).values()) counts[sign]++;
      did.set(view.id, countsText(counts));
    }
    return did;
  }

  #hasSaved(): boolean {
    const kind = this.#view?.kind;
    return Boolean(this.#read?.compile.saved?.length) && (kind === "joint" || kind === "forward" || kind === "backward");
  }

  #eager(): View | undefined {
    return this.#read?.eager;
  }

  /** The views that are drawn: eager's beside the joint one, where that is wished. */
  #drawnViews(): readonly View[] {
    const [view, read] = [this.#view, this.#read];
    if (!view || !read) return [];
    const eager = this.#eager();
    if (!this.#settings.beside.value || !eager) return [view];
    const joint = view.kind === "joint" ? view : view.kind === "eager" ? read.views.find(each => each.kind === "joint") : undefined;
    return joint ? [eager, joint] : [view];
  }

  #partOf(view: View): Omit<Part, "x" | "y" | "placement"> {
    const subject = this.#subject(view);
    return {
      subject, view, paint: paintOf(this.#settings.colouring.value, subject.state(view), subject.kernels),
      changes: this.#settings.changes.value ? subject.changesOf(view) : new Map(), saved: savedBy(subject.compile),
    };
  }

  #drawScene(keep?: Item): void {
    const by = this.#settings.by.value;
    const views = this.#drawnViews();
    let placed: readonly Omit<Part, "x" | "y">[] = [];
    this.#tooLarge = "";
    this.#drawnState = this.#view ? this.#stateOf(this.#view) : "";
    try {
      placed = views.map(view => {
        const part = this.#partOf(view);
        return { ...part, placement: part.subject.placement(by, this.#openIn(part.subject, view)) };
      });
    } catch (error) {
      if (!(error instanceof TooLarge)) throw error;
      this.#tooLarge = error.message;
    }
    this.#scene = sceneOf(placed, this.#context.model.palette.value);
    const drawn = placed.map(({ subject, view }) => this.#openings.name(subject, view, by)).join(" | ");
    this.#drawing.show(this.#scene, drawn === this.#drawnFor, keep);
    this.#drawnFor = drawn;
    this.#drawing.light(this.#context.selection.chain.value);
    fill(this.#legend, ...legendOf(this.#scene));
    this.#card.show(this.#drawing.at);
    this.#tip.show(null);
  }

  /** Shows the one of drawing, table and text that is wished for. */
  #lay(): void {
    const { kept } = this.#settings;
    const shown = this.#shown;
    for (const [name, body] of Object.entries(this.#bodies)) body.hidden = name !== shown;
    this.#legend.hidden = !this.#settings.legend.value || shown !== "drawing" || !this.#empty.hidden;
    this.#list.element.hidden = !kept.value || !this.#hasSaved();
    if (!this.#view || !this.#read || !this.#empty.hidden) return;
    if (!this.#list.element.hidden) this.#list.show(this.#read.compile);
    if (shown === "table") this.#table.show(this.#partOf(this.#view));
    if (shown === "text") this.#text.show(textOf(this.#partOf(this.#view), this.#context.model));
    this.#describe();
  }

  #describe(): void {
    const view = this.#view;
    if (!view) return;
    const did = view.before && this.#settings.changes.value ? `. Against ${view.before.title}: ${this.#told(view)}` : "";
    const instead = this.#tooLarge && this.#settings.shown.value === "drawing" ? `Too large to draw: ${this.#tooLarge}. Here is the table. ` : "";
    const subject = this.#subject(view);
    const soFar = subject.step < 0 ? "" : `${subject.state(view).nodes.size} of `;
    this.#tell(`${instead}${soFar}${count(view.graph.nodes.length, "node")}${soFar && `, up to step ${subject.step} (Escape: all)`}: ${WHAT[view.kind]}${did}`);
  }

  #told(view: View): string {
    const counts = new Map<string, number>();
    for (const sign of this.#subject(view).changesOf(view).values()) counts.set(sign, (counts.get(sign) ?? 0) + 1);
    return (["added", "removed", "changed"] as const).flatMap(sign => (counts.has(sign) ? [`${counts.get(sign)} ${sign}`] : [])).join(", ") || "nothing changed";
  }

  #tell(text: string): void {
    this.#said.textContent = text;
  }

  #picture(most: number): string {
    const drawn = this.#drawing.complete();
    try {
      const [width, height] = [Number(drawn.getAttribute("width")), Number(drawn.getAttribute("height"))];
      const factor = Math.min(1, most / Math.max(width, height));
      drawn.setAttribute("width", String(Math.floor(width * factor)));
      drawn.setAttribute("height", String(Math.floor(height * factor)));
      return standalone(drawn);
    } finally {
      drawn.remove();
    }
  }
}

/** Browsers make no larger canvas; a PNG has two pixels each. */
const MOST_PIXELS = 7000;
