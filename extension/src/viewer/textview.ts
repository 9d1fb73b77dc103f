// A read-only text whose lines stand for elements: coloured by source line, lit up with the chain of what is selected.

import { EditorState, type Extension, RangeSetBuilder, StateEffect } from "@codemirror/state";
import {
  Decoration, type DecorationSet, EditorView, gutter, GutterMarker, keymap, ViewPlugin, type ViewUpdate,
} from "@codemirror/view";
import { h } from "./dom";
import type { Key } from "./element";
import { phrase } from "./format";
import { entry } from "./gather";
import { type Colour, colourClass } from "./palette";
import { Ruler } from "./ruler";
import type { Model } from "./model";
import type { Selection } from "./selection";
import type { Dispose } from "./signal";
import { type Kind, quotes, tokens } from "./syntax";

export interface Row {
  readonly text: string;
  /** The elements that the line is about; the first is selected by hovering over it. */
  readonly stands?: readonly Key[];
  readonly colour?: Colour;
  /** What the gutter says beside it: a line number, an offset. */
  readonly number?: string;
  /** Marks in the gutter, as text; each with its meaning. */
  readonly marks?: readonly Mark[];
  readonly style?: "heading" | "source" | "added" | "removed" | "altered" | "filler";
  /** Said at the end of the line. */
  readonly note?: string;
  /** Said while the pointer rests on the line. */
  readonly title?: string;
}

export interface Mark {
  readonly text: string;
  readonly title: string;
  readonly style: string;
  /** Of a whole, drawn as a bar behind the text. */
  readonly share?: number;
}

export interface Rows {
  readonly rows: readonly Row[];
  readonly language: string;
  /** What a screen reader calls the text. */
  readonly label: string;
}

/** The chain changed, or a mark moved. */
const relit = StateEffect.define<null>();
/** The rows are others, though their text may be the same. */
const replaced = StateEffect.define<null>();
/** Characters of a row that are shown. */
const LONGEST = 20_000;

/** A row as one line of the text: a record may hold ends of lines within its lines, and lines without an end. */
function inOneLine(row: Row): Row {
  const cut = row.text.length > LONGEST ? `${row.text.slice(0, LONGEST)} … ${row.text.length - LONGEST} characters more` : row.text;
  const text = /[\r\n]/.test(cut) ? cut.replace(/\r\n?|\n/g, "⏎") : cut;
  return text === row.text ? row : { ...row, text };
}

const EMPTY: Rows = { rows: [], language: "text", label: "" };

export class TextView {
  readonly view: EditorView;
  #given: Rows = EMPTY;
  #shown: Rows = EMPTY;
  #inside: readonly string[] = [];
  #lines: ReadonlyMap<Key, number> | null = null;
  readonly #ruler = new Ruler();
  readonly #lineStyles = new Map<string, Decoration>();
  readonly #disposers: Dispose[];
  #ownPin: Key | null = null;
  #current = -1;
  #pointed = -1;
  readonly #context: { readonly selection: Selection; readonly model: Pick<Model, "links"> };

  /** `marked`: a column of marks stands beside the numbers; called where a number is clicked, or "b" pressed on its line. */
  constructor(into: HTMLElement, context: { readonly selection: Selection; readonly model: Pick<Model, "links"> }, marked?: true | ((line: Key) => void)) {
    this.#context = context;
    this.view = new EditorView({ parent: into, state: this.#state(marked) });
    this.view.dom.append(this.#ruler.element);
    const { selection } = context;
    this.#disposers = [
      selection.chain.watch(() => this.#relight()),
      selection.pinned.watch(pinned => {
        if (pinned !== null && pinned !== this.#ownPin) this.reveal(pinned, true);
        this.#ownPin = null;
      }),
    ];
  }

  show(given: Rows): void {
    if (given === this.#given) return;
    this.#given = given;
    const rows = { ...given, rows: given.rows.map(inOneLine) };
    const sameText = rows.rows.length === this.#shown.rows.length && rows.rows.every((row, n) => row.text === this.#shown.rows[n]?.text);
    this.#shown = rows;
    this.#lines = null;
    this.#lineStyles.clear();
    this.#pointed = -1;
    this.#inside = rows.language === "python" || rows.language === "triton" ? quotesOf(rows.rows) : [];
    if (sameText) {
      this.view.dispatch({ effects: replaced.of(null) });
    } else {
      const text = rows.rows.map(row => row.text).join("\n");
      this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text }, selection: { anchor: 0 }, effects: replaced.of(null) });
      this.view.scrollDOM.scrollTo(0, 0);
    }
    this.#rule();
  }

  /** Marks one line as the one that something is at (-1: none), and brings it into view. */
  setCurrent(line: number): void {
    if (line === this.#current) return;
    this.#current = line;
    this.view.dispatch({ effects: [relit.of(null), ...(line >= 0 ? [this.#scrolling(line)] : [])] });
  }

  /** Brings an element into view: its own line, or else the first of its chain. `gently`: not where one is seen already. */
  reveal(what: Key, gently = false): boolean {
    const line = this.#lineOf(what);
    if (line === undefined) return false;
    if (gently && this.#isSeen(line)) return true;
    this.view.dispatch({ effects: this.#scrolling(line) });
    return true;
  }

  /** Brings a line (from 0) into view. */
  scrollTo(line: number): void {
    this.view.dispatch({ effects: EditorView.scrollIntoView(this.#position(line), { y: "start" }) });
  }

  get text(): string {
    return this.#shown.rows.map(row => row.text).join("\n");
  }

  dispose(): void {
    this.#disposers.forEach(dispose => dispose());
    this.#ruler.dispose();
    this.view.destroy();
  }

  #lineOf(what: Key): number | undefined {
    this.#lines ??= new Map([...this.#shown.rows.entries()].reverse().flatMap(([n, row]) => (row.stands ?? []).map(key => [key, n] as const)));
    const own = this.#lines.get(what);
    if (own !== undefined) return own;
    const links = this.#context.model.links.value;
    let first: number | undefined;
    for (const key of links.chain(what)) {
      const line = this.#lines.get(key);
      if (line !== undefined && (first === undefined || line < first)) first = line;
    }
    return first;
  }

  #isSeen(line: number): boolean {
    const block = this.view.lineBlockAt(this.#position(line));
    const { scrollTop, clientHeight } = this.view.scrollDOM;
    return block.top >= scrollTop && block.bottom <= scrollTop + clientHeight;
  }

  #scrolling(line: number): StateEffect<unknown> {
    return EditorView.scrollIntoView(this.#position(line), { y: "nearest", yMargin: this.view.scrollDOM.clientHeight / 3 });
  }

  #position(line: number): number {
    const { doc } = this.view.state;
    return doc.line(Math.max(1, Math.min(line + 1, doc.lines))).from;
  }

  #relight(): void {
    this.view.dispatch({ effects: relit.of(null) });
    this.#rule();
  }

  #rule(): void {
    const chain = this.#context.selection.chain.value;
    const { rows } = this.#shown;
    const seen = this.view.contentHeight <= this.view.scrollDOM.clientHeight;
    const lit = chain.size === 0 || seen ? [] : rows.flatMap((row, n) => (row.stands?.some(key => chain.has(key)) ? [n] : []));
    this.#ruler.show(lit, rows.length);
  }

  #row(line: number): Row | undefined {
    return this.#shown.rows[line];
  }

  #key(line: number): Key | null {
    return this.#row(line)?.stands?.[0] ?? null;
  }

  #lineAt(event: Event): number {
    const element = event.target instanceof Element ? event.target.closest(".cm-line") : null;
    if (!element || !this.view.contentDOM.contains(element)) return -1;
    return this.view.state.doc.lineAt(this.view.posAtDOM(element)).number - 1;
  }

  #point(line: number): void {
    if (line === this.#pointed) return;
    this.#pointed = line;
    this.#context.selection.hovered.value = this.#key(line);
  }

  #pin(line: number): void {
    const what = this.#key(line);
    if (what === null) return;
    this.#ownPin = what;
    this.#context.selection.pin(what);
  }

  /** The line that the keyboard is on. */
  get #caret(): number {
    return this.#caretIn(this.view);
  }

  #caretIn({ state }: EditorView): number {
    return state.doc.lineAt(state.selection.main.head).number - 1;
  }

  #step(by: number): boolean {
    const line = Math.max(0, Math.min(this.#caret + by, this.view.state.doc.lines - 1));
    const at = this.#position(line);
    this.view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "nearest", yMargin: 20 }) });
    this.#pointed = -1;
    this.#point(line);
    return true;
  }

  #state(marked?: true | ((line: Key) => void)): EditorState {
    const choose = (line: number) => {
      const what = this.#key(line);
      if (typeof marked !== "function" || what === null) return false;
      marked(what);
      return true;
    };
    const page = () => Math.max(1, Math.floor(this.view.scrollDOM.clientHeight / this.view.defaultLineHeight) - 1);
    const all = () => this.view.state.doc.lines;
    const extensions: Extension[] = [
      EditorState.readOnly.of(true),
      EditorView.editable.of(false),
      EditorView.editorAttributes.of({ class: "ex-textview" }),
      EditorView.contentAttributes.of(() => ({ tabindex: "0", "aria-label": this.#shown.label })),
      keymap.of([
        { key: "ArrowDown", run: () => this.#step(1) },
        { key: "ArrowUp", run: () => this.#step(-1) },
        { key: "PageDown", run: () => this.#step(page()) },
        { key: "PageUp", run: () => this.#step(-page()) },
        { key: "Home", run: () => this.#step(-all()) },
        { key: "End", run: () => this.#step(all()) },
        { key: "b", run: () => choose(this.#caret) },
        { key: "Enter", run: () => (this.#pin(this.#caret), true) },
        { key: " ", run: () => (this.#pin(this.#caret), true) },
      ]),
      EditorView.domEventHandlers({
        mousemove: event => this.#point(this.#lineAt(event)),
        mouseleave: () => this.#point(-1),
        click: event => {
          const chosen = this.view.dom.ownerDocument.getSelection();
          const line = this.#lineAt(event);
          if (line >= 0 && (!chosen || chosen.isCollapsed)) {
            this.view.dispatch({ selection: { anchor: this.#position(line) } });
            this.#pin(line);
          }
        },
        focus: () => this.#relight(),
        blur: () => {
          this.#pointed = -1;
          this.#context.selection.hovered.value = null;
          this.#relight();
        },
      }),
      painted(view => this.#coloured(view), update => has(update, replaced)),
      painted(view => this.#lit(view), update => has(update, replaced) || has(update, relit) || update.selectionSet),
    ];
    const numbers = gutter({
      class: "ex-numbers",
      lineMarker: (view, block) => {
        const number = this.#row(view.state.doc.lineAt(block.from).number - 1)?.number;
        return number ? new NumberMarker(number) : null;
      },
      lineMarkerChange: update => has(update, replaced),
      domEventHandlers: { click: (view, { from }) => choose(view.state.doc.lineAt(from).number - 1) },
    });
    const marks = gutter({
      class: "ex-marks",
      lineMarker: (view, block) => {
        const found = this.#row(view.state.doc.lineAt(block.from).number - 1)?.marks;
        return found?.length ? new Marks(found) : null;
      },
      lineMarkerChange: update => has(update, replaced),
    });
    return EditorState.create({ extensions: [...extensions, numbers, ...(marked ? [marks] : [])] });
  }

  /** The rows in view, so that painting costs the same in a text of any length. */
  *#inView(view: EditorView): Iterable<[row: Row, n: number, from: number]> {
    for (const { from, to } of view.visibleRanges) {
      for (let at = from; at <= to; ) {
        const line = view.state.doc.lineAt(at);
        const row = this.#row(line.number - 1);
        if (row) yield [row, line.number - 1, line.from];
        at = line.to + 1;
      }
    }
  }

  #coloured(view: EditorView): DecorationSet {
    const builder = new RangeSetBuilder<Decoration>();
    for (const [row, n, from] of this.#inView(view)) {
      if (row.style === "heading" || row.style === "source") continue;
      for (const token of tokens(row.text, this.#shown.language, this.#inside[n])) builder.add(from + token.from, from + token.to, tokenStyle(token.kind));
    }
    return builder.finish();
  }

  #lit(view: EditorView): DecorationSet {
    const builder = new RangeSetBuilder<Decoration>();
    const pinned = this.#context.selection.pinned.value;
    const caret = view.hasFocus ? this.#caretIn(view) : -1;
    for (const [row, n, from] of this.#inView(view)) {
      const classes = [
        "ex-row", colourClass(row.colour ?? null), row.style ? `ex-row-${row.style}` : "", this.#context.selection.look(row.stands ?? []),
        pinned !== null && row.stands?.includes(pinned) ? "ex-pinned" : "", n === this.#current ? "ex-current" : "", n === caret ? "ex-caret" : "",
      ];
      builder.add(from, from, this.#lineStyle(phrase(classes, " "), row.note, row.title));
    }
    return builder.finish();
  }

  /** One decoration for all lines that look the same: comparing them is then comparing references. */
  #lineStyle(look: string, note: string | undefined, title: string | undefined): Decoration {
    return entry(this.#lineStyles, JSON.stringify([look, note, title]), () => {
      const attributes: { [name: string]: string } = {};
      if (note) attributes["data-note"] = note;
      if (title) attributes.title = title;
      return Decoration.line({ class: look, attributes });
    });
  }
}

/** A heading between stretches of a file ends whatever string was open. */
function quotesOf(rows: readonly Row[]): string[] {
  const found: string[] = [];
  let stretch: string[] = [];
  for (const row of rows) {
    if (row.style === "heading") {
      found.push(...quotes(stretch), "");
      stretch = [];
    } else {
      stretch.push(row.text);
    }
  }
  return [...found, ...quotes(stretch)];
}

const TOKENS = new Map<Kind, Decoration>();

function tokenStyle(kind: Kind): Decoration {
  return entry(TOKENS, kind, () => Decoration.mark({ class: `ex-tok-${kind}` }));
}

/** Decorations of the lines in view, made anew where they come into view or `stale` says so. */
function painted(paint: (view: EditorView) => DecorationSet, stale: (update: ViewUpdate) => boolean): Extension {
  return ViewPlugin.define(view => ({
    decorations: paint(view),
    update(update: ViewUpdate) {
      if (update.docChanged || update.viewportChanged || stale(update)) this.decorations = paint(update.view);
    },
  }), { decorations: each => each.decorations });
}

function has(update: ViewUpdate, wanted: typeof relit): boolean {
  return update.transactions.some(each => each.effects.some(effect => effect.is(wanted)));
}

class NumberMarker extends GutterMarker {
  readonly #number: string;

  constructor(number: string) {
    super();
    this.#number = number;
  }

  override eq(other: GutterMarker): boolean {
    return other instanceof NumberMarker && other.#number === this.#number;
  }

  override toDOM(): Node {
    return document.createTextNode(this.#number);
  }
}

class Marks extends GutterMarker {
  readonly #marks: readonly Mark[];

  constructor(marks: readonly Mark[]) {
    super();
    this.#marks = marks;
  }

  override eq(other: GutterMarker): boolean {
    return other instanceof Marks && JSON.stringify(other.#marks) === JSON.stringify(this.#marks);
  }

  override toDOM(): Node {
    return h("span", ...this.#marks.map(({ text, title, style, share }) => {
      const made = h("span", { class: `ex-mark ${style}`, title }, text);
      if (share !== undefined) made.style.background = `linear-gradient(to right, currentColor ${Math.max(4, 100 * share).toFixed()}%, color-mix(in srgb, currentColor 12%, transparent) 0)`;
      return made;
    }));
  }
}
