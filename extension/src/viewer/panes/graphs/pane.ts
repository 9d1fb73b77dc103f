// Graphs: as captured, as traced, after each pass, and the halves; drawn, as a table, and as text. Which graph is
// looked at, what of it is open, and how it hangs together with the rest of the viewer.

import { fill, h } from "../../dom";
import { key, type Key, parts } from "../../element";
import { count, fileName } from "../../format";
import type { Context, Export, Pane } from "../../pane";
import { rasterized, standalone } from "../../picture";
import { program } from "../../saving";
import { countsOf, countsPhrase, countsText, whyNone } from "../../stages";
import { ends, onChange } from "../../signal";
import { TextView } from "../../textview";
import { Card } from "./card";
import { Drawing } from "./drawing";
import { around, type Group, groupsIn, type Item } from "./groups";
import { SavedList, NodeTable, textOf } from "./nodetable";
import { TooLarge } from "./layered";
import { legendOf } from "./svg";
import { allOpen, MOST, opening, Openings, savedBy, type Subject } from "./subject";
import { paintOf } from "./paint";
import { Reading } from "./reading";
import { type DrawnItem, type ScenePart, type Scene, sceneOf } from "./scene";
import { settingsOf, type Toggle, Toolbar } from "./toolbar";
import { type GraphView, WHAT } from "./views";

let made = 0;

export function graphs(into: HTMLElement, context: Context): Pane {
  const statusLine = h("div.ex-g-said", { role: "status" });
  const legend = h("div.ex-g-legend", { role: "group", "aria-label": "Legend", tabindex: 0 });
  const empty = h("div.ex-empty", { role: "note" });
  let reading: Reading | null = null;
  let looked: GraphView | undefined;
  let scene: Scene | null = null;
  const openings = Openings();
  let drawnFor = "";
  let drawnState = "";
  /** Why the graph is not drawn; "" where it is. */
  let tooLarge = "";
  let ownPin: Key | null = null;
  const openIn = (subject: Subject, view: GraphView): Set<Group> => openings.of(subject, view, settings.by.value);
  const eagerView = (): GraphView | undefined => reading?.eager;
  const tell = (text: string) => (statusLine.textContent = text);
  const settings = settingsOf(context);
  const toolbar = Toolbar(settings, choose, openAll, nextChange);
  const drawing = Drawing(`ex-g${++made}`, { hovered, chosen, walked, toggled, left });
  const tip = Card(context, null);
  const card = Card(context, () => {
    drawing.setCurrent(null);
    card.show(null);
  });
  drawing.element.append(tip.element, card.element);
  const table = NodeTable(context.selection, near);
  const text = h("div.ex-body-text");
  const list = SavedList(context, id => reveal(key(context.compile.value, id)));
  const bodies = { drawing: drawing.element,
    table: h("div.ex-g-scroll", { tabindex: 0, "aria-label": "Nodes" }, table.table.element), text };
  const body = h("div.ex-g-body", h("div.ex-g-main", ...Object.values(bodies)), list.element);
  into.append(h("div.ex-pane.ex-graphs", toolbar.element, statusLine, empty, body, legend));
  const textView = TextView(text, context, true);
  const { by, coloring, changes, saved, withEager, legend: wantsLegend } = settings;
  const dispose = ends(
    context.looked.watch(reread), onChange(context.stage, follow), onChange(context.step, stepped),
    ...[by, coloring, changes, withEager].map(each => onChange<unknown>(each, render)),
    ...[settings.shown, saved, wantsLegend].map(each => onChange<unknown>(each, lay)),
    onChange(context.selection.chain, chain => drawing.light(chain)),
    onChange(context.selection.pinned, pinnedElsewhere),
    onChange(context.host.dark, () => requestAnimationFrame(() => drawing.recolored())),
    toolbar, drawing, table.table, textView, list,
  );

  function reveal(what: Key): boolean {
    const { compile, id } = parts(what);
    if (compile !== context.compile.value || !reading) return false;
    const read = reading;
    const by = settings.by.value;
    const views = [looked, ...[...read.views].reverse()].filter(view => view !== undefined);
    const view = views.find(each => read.find(each, by, id) !== undefined);
    if (!view) return false;
    if (view !== looked) look(view);
    if (shownAs() === "table") return table.table.reveal(what);
    if (shownAs() === "text") return textView.reveal(what);
    return goTo(view, read.find(view, by, id)!);
  }

  function exports(): readonly Export[] {
    const [view, read] = [looked, reading];
    if (!view || !read) return [];
    const name = fileName(`${read.compile.id} ${view.title} graph`);
    const text: Export = { kind: "txt", name, make: async () => view.lines.map(([text]) => text).join("\n") };
    const whole = view.id === view.stage ? [text, program(context.host, name, read.compile.id, view.id)] : [text];
    if (tooLarge) return whole;
    return [
      { kind: "svg", name, make: async () => picture(Infinity) },
      { kind: "png", name, make: async () => rasterized(picture(MOST_PIXELS)) },
      ...whole,
    ];
  }

  function reread(): void {
    const compile = context.looked.value;
    if (!compile) {
      reading = null;
      looked = undefined;
      return render();
    }
    const id = reading?.compile.id === compile.id ? looked?.id : undefined;
    reading = Reading.of(compile, reading);
    looked = (id === undefined ? undefined : reading.view(id)) ?? reading.viewOf(context.stage.value);
    render();
  }

  function follow(): void {
    if (looked?.stage === context.stage.value) return;
    const view = reading?.viewOf(context.stage.value);
    if (!view || view === looked) return;
    looked = view;
    render();
  }

  function choose(id: string): void {
    const view = reading?.view(id);
    if (view) look(view);
  }

  function look(view: GraphView): void {
    looked = view;
    render();
    context.stage.value = view.stage;
  }

  /** What is shown: a graph that is too large to draw, as a table. */
  function shownAs(): Toggle {
    const { value } = settings.shown;
    return tooLarge && value === "drawing" ? "table" : value;
  }

  function subjectOf(view: GraphView): Subject {
    const subject = reading!.subject(view);
    subject.step = view.kind === "captured" && !view.before ? context.step.value : -1;
    return subject;
  }

  /** What tells the states of a view apart: most steps add no node. */
  function stateOf(view: GraphView): string {
    const subject = subjectOf(view);
    return `${subject.step < 0} ${subject.state(view).nodes.size}`;
  }

  /** The captured graph grows and shrinks with the steps of capture; what a step adds is at hand. */
  function stepped(step: number): void {
    const { made = {} } = reading?.compile ?? {};
    const view = looked;
    if (!scene || view?.kind !== "captured") return;
    drawing.setCurrent(null);
    if (drawnState === stateOf(view)) describe();
    else {
      drawScene();
      lay();
    }
    const [fresh = null] = scene.marks.filter(({ node }) => node && made[node.data.id] === step);
    drawing.setCurrent(fresh);
    if (fresh) drawing.bringNear([fresh]);
  }

  function setOpen(subject: Subject, view: GraphView, open: ReadonlySet<Group>, keep?: Item): void {
    openings.set(subject, view, settings.by.value, open);
    drawScene(keep);
    lay();
  }

  function openItem(subject: Subject, view: GraphView, item: Item): void {
    const { open, closed } = opening(subject.root(settings.by.value), openIn(subject, view), item);
    setOpen(subject, view, open, item);
    if (closed.length)
      tell(`Closed ${closed.map(group => group.label).join(", ")}: at most ${MOST} boxes show at once.`);
  }

  function openAll(open: boolean): void {
    for (const part of scene?.parts ?? []) {
      const by = settings.by.value;
      const root = part.subject.root(by);
      openings.set(part.subject, part.view, by,
        open ? allOpen(root) : new Set([...groupsIn(root)].filter(group => group.kind === "side")));
    }
    drawnFor = "";
    drawScene();
    lay();
  }

  function nextChange(): void {
    const view = looked;
    if (!view) return;
    const subject = subjectOf(view);
    const changed = [...subject.changesOf(view).keys()].sort((a, b) => a - b);
    const { at } = drawing;
    const from = at?.item.kind === "leaf" ? at.item.vertex : -1;
    const vertex = changed.find(each => each > from) ?? changed[0];
    if (vertex === undefined) return;
    settings.changes.value = true;
    settings.shown.value = "drawing";
    goTo(view, subject.find(settings.by.value, subject.family.vertices[vertex]!.data.id)!);
  }

  /** Opens what is around an item, and brings it into view. */
  function goTo(view: GraphView, item: Item): boolean {
    const subject = subjectOf(view);
    const open = openIn(subject, view);
    if (around(item).some(group => !open.has(group)))
      openItem(subject, view, item.kind === "leaf" ? item : item.parent!);
    const mark = scene?.marks.find(each => each.item === item);
    if (!mark) return false;
    drawing.setCurrent(mark);
    drawing.reveal(mark);
    card.show(mark);
    return true;
  }

  function toggled(mark: DrawnItem): void {
    const { subject, view } = mark.part;
    const group = mark.item as Group;
    if (!mark.open) return openItem(subject, view, group);
    const open = openIn(subject, view);
    open.delete(group);
    setOpen(subject, view, open, group);
  }

  function left(mark: DrawnItem): void {
    const group = mark.item.parent;
    if (!group?.parent) return;
    const { subject, view } = mark.part;
    const open = openIn(subject, view);
    open.delete(group);
    setOpen(subject, view, open, group);
    const frame = scene?.marks.find(each => each.item === group);
    if (frame) {
      drawing.setCurrent(frame);
      drawing.reveal(frame);
    }
  }

  function hovered(mark: DrawnItem | null, x: number, y: number): void {
    context.selection.hovered.value = mark?.key ?? null;
    tip.show(mark === drawing.at ? null : mark);
    if (mark) tip.place(x, y);
  }

  function walked(mark: DrawnItem | null): void {
    context.selection.hovered.value = mark?.key ?? null;
    if (mark) card.show(mark);
  }

  function chosen(mark: DrawnItem | null): void {
    card.show(mark);
    tip.show(null);
    if (!mark?.key) return;
    ownPin = mark.key;
    context.selection.pin(mark.key);
  }

  /** A row of the table was chosen: the drawing will be there when it is shown. */
  function near(vertex: number): void {
    const node = looked && subjectOf(looked).state(looked).nodes.get(vertex);
    const mark = node && scene?.byKey.get(key(context.compile.value, node.data.id))?.[0];
    if (mark) drawing.setCurrent(mark);
  }

  /** Moves to what was pinned in another pane, where nothing of it is in view. */
  function pinnedElsewhere(pinned: Key | null): void {
    if (pinned === null || pinned === ownPin) {
      ownPin = null;
      return;
    }
    const chain = context.selection.chain.value;
    const marks = scene?.marks.filter(mark => !mark.open && [...keysOf(mark)].some(each => chain.has(each))) ?? [];
    drawing.bringNear(marks);
  }

  function* keysOf(mark: DrawnItem): Iterable<Key> {
    if (mark.key !== null) yield mark.key;
    if (mark.item.kind === "leaf") return;
    const { compile, family } = mark.part.subject;
    for (const vertex of mark.item.vertices) yield key(compile.id, family.vertices[vertex]!.data.id);
  }

  function render(): void {
    const [view, read] = [looked, reading];
    empty.hidden = view !== undefined && view.graph.nodes.length > 0;
    body.hidden = !empty.hidden;
    const changed = view !== undefined && subjectOf(view).changesOf(view).size > 0;
    const eager = eagerView() !== undefined && (view?.kind === "joint" || view?.kind === "eager");
    toolbar.offer({ views: read?.views ?? [], view, did: did(), changed, hasSaved: hasSaved(), eager });
    tell("");
    if (!view || !read || !empty.hidden) {
      fill(empty, h("p",
        (looked ? "This graph has no nodes: there was nothing to compute." : whyNone("graph", reading?.compile))));
      legend.hidden = true;
      scene = null;
      return;
    }
    drawScene();
    lay();
  }

  function did(): Map<string, string> {
    const did = new Map<string, string>();
    for (const view of reading?.views ?? []) {
      const subject = view.before && reading?.known(view);
      if (!subject) continue;
      did.set(view.id, countsText(countsOf(subject.changesOf(view).values())));
    }
    return did;
  }

  function hasSaved(): boolean {
    const kind = looked?.kind;
    return Boolean(reading?.compile.saved?.length) && (kind === "joint" || kind === "forward" || kind === "backward");
  }

  /** The views that are drawn: eager's beside the joint one, where that is wished. */
  function drawnViews(): readonly GraphView[] {
    const [view, read] = [looked, reading];
    if (!view || !read) return [];
    const eager = eagerView();
    if (!settings.withEager.value || !eager) return [view];
    const joint =
      view.kind === "joint" ? view : view.kind === "eager" ? read.views.find(each => each.kind === "joint") : undefined;
    return joint ? [eager, joint] : [view];
  }

  function partOf(view: GraphView): Omit<ScenePart, "x" | "y" | "placement"> {
    const subject = subjectOf(view);
    return {
      subject, view, paint: paintOf(settings.coloring.value, subject.state(view), subject.kernels),
      changes: settings.changes.value ? subject.changesOf(view) : new Map(), saved: savedBy(subject.compile),
    };
  }

  function drawScene(keep?: Item): void {
    const by = settings.by.value;
    const views = drawnViews();
    let placed: readonly Omit<ScenePart, "x" | "y">[] = [];
    tooLarge = "";
    drawnState = looked ? stateOf(looked) : "";
    try {
      placed = views.map(view => {
        const part = partOf(view);
        return { ...part, placement: part.subject.placement(by, openIn(part.subject, view)) };
      });
    } catch (error) {
      if (!(error instanceof TooLarge)) throw error;
      tooLarge = error.message;
    }
    scene = sceneOf(placed, context.model.palette.value);
    const drawn = placed.map(({ subject, view }) => openings.name(subject, view, by)).join(" | ");
    drawing.show(scene, drawn === drawnFor, keep);
    drawnFor = drawn;
    drawing.light(context.selection.chain.value);
    fill(legend, ...legendOf(scene));
    card.show(drawing.at);
    tip.show(null);
  }

  /** Shows the one of drawing, table and text that is wished for. */
  function lay(): void {
    const { saved } = settings;
    const shown = shownAs();
    for (const [name, body] of Object.entries(bodies)) body.hidden = name !== shown;
    legend.hidden = !settings.legend.value || shown !== "drawing" || !empty.hidden;
    list.element.hidden = !saved.value || !hasSaved();
    if (!looked || !reading || !empty.hidden) return;
    if (!list.element.hidden) list.show(reading.compile);
    if (shown === "table") table.show(partOf(looked));
    if (shown === "text") textView.show(textOf(partOf(looked), context.model));
    describe();
  }

  function describe(): void {
    const view = looked;
    if (!view) return;
    const did = view.before && settings.changes.value ? `. Against ${view.before.title}: ${countsPhrase(countsOf(
      subjectOf(view).changesOf(view).values()))}` : "";
    const instead =
      tooLarge && settings.shown.value === "drawing" ? `Too large to draw: ${tooLarge}. Here is the table. ` : "";
    const subject = subjectOf(view);
    const soFar = subject.step < 0 ? "" : `${subject.state(view).nodes.size} of `;
    tell(
      `${instead}${soFar}${count(view.graph.nodes.length, "node")}${soFar && `, up to step ${subject.step} (Escape: `
        + `all)`}: ${WHAT[view.kind]}${did}`);
  }

  function picture(most: number): string {
    const drawn = drawing.complete();
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

  return { reveal, exports, dispose };
}


/** Browsers make no larger canvas; a PNG has two pixels each. */
const MOST_PIXELS = 7000;
