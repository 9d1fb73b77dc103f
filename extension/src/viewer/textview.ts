// A read-only text whose lines stand for elements: colored by source line, lit up with the chain of what is selected.
// And the lines of a record's texts as its rows.

import { EditorState, type Extension, RangeSetBuilder, StateEffect } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, gutter, GutterMarker, keymap, ViewPlugin, type ViewUpdate } from
  "@codemirror/view";
import { h } from "./dom";
import { type Key, isSourceLine, key, syntheticReason } from "./element";
import { phrase } from "./format";
import { entry } from "./collections";
import { type Color, colorClass } from "./palette";
import type { Model } from "./model";
import type { Selection } from "./selection";
import { type TokenKind, quotes, tokens } from "./syntax";
import { ends } from "./signal";
import type { CompileData, LineData, TextData } from "./record";

export interface TextRow {
  readonly text: string;
  /** The elements that the line is about; the first is selected by hovering over it. */
  readonly stands?: readonly Key[];
  readonly color?: Color;
  /** What the gutter says beside it: a line number, an offset. */
  readonly number?: string;
  /** Marks in the gutter, as text; each with its meaning. */
  readonly marks?: readonly TextMark[];
  readonly style?: "heading" | "source" | "added" | "removed" | "altered" | "filler";
  /** Said at the end of the line. */
  readonly note?: string;
  /** Said while the pointer rests on the line. */
  readonly title?: string;
}

export interface TextMark {
  readonly text: string;
  readonly title: string;
  readonly style: string;
  /** Of a whole, drawn as a bar behind the text. */
  readonly share?: number;
}

export interface TextRows {
  readonly rows: readonly TextRow[];
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

/** Lines are brought to a third of the height from the ends, or are left where they are if they are in view. */
const NEAR = { y: "center", yMargin: 1 } as const;
const IF_UNSEEN = { y: "center", yMargin: 0 } as const;
const TOP = { y: "center", yMargin: -1 } as const;

/** Scrolls the text alone. Reads when the editor measures: read at once, the page would be laid out once for each
 * text. */
function near(view: EditorView, { head }: { readonly head: number },
    { y, yMargin }: { readonly y: string; readonly yMargin: number }): boolean {
  if (y !== "center") return false;
  const { top, bottom } = view.lineBlockAt(head);
  const { scrollTop, clientHeight } = view.scrollDOM;
  const third = clientHeight / 3;
  if (!yMargin && top >= scrollTop && bottom <= scrollTop + clientHeight) return true;
  view.scrollDOM.scrollTo(0,
    yMargin < 0 ? 0 : Math.min(Math.max(scrollTop, bottom + third - clientHeight), top - third));
  return true;
}

/** A row as one line of the text: a record may hold ends of lines within its lines, and lines without an end. */
function inOneLine(row: TextRow): TextRow {
  const cut = row.text.length > LONGEST
    ? `${row.text.slice(0, LONGEST)} … ${row.text.length - LONGEST} characters more` : row.text;
  const text = /[\r\n]/.test(cut) ? cut.replace(/\r\n?|\n/g, "⏎") : cut;
  return text === row.text ? row : { ...row, text };
}

const EMPTY: TextRows = { rows: [], language: "text", label: "" };

/** `marked`: a column of marks stands beside the numbers; called where a number is clicked, or "b" pressed on its
 * line. */
export function TextView(
  into: HTMLElement, context: { readonly selection: Selection; readonly model: Pick<Model, "links"> },
  marked?: true | ((line: Key) => void),
) {
  let last: TextRows = EMPTY;
  let shown: TextRows = EMPTY;
  let inside: readonly string[] = [];
  let lines: ReadonlyMap<Key, number> | null = null;
  const ruler = Ruler();
  const lineStyles = new Map<string, Decoration>();
  let ownPin: Key | null = null;
  let current = -1;
  let pointed = -1;
  const text = (): string => shown.rows.map(row => row.text).join("\n");
  const rowAt = (line: number): TextRow | undefined => shown.rows[line];
  const key = (line: number): Key | null => rowAt(line)?.stands?.[0] ?? null;
  /** The line that the keyboard is on. */
  const caret = (): number => caretIn(view);
  const caretIn = ({ state }: EditorView): number => state.doc.lineAt(state.selection.main.head).number - 1;
  const view = new EditorView({ parent: into, state: state(marked) });
  view.dom.append(ruler.element);
  const { selection } = context;
  const dispose = ends(
    selection.chain.watch(relight),
    selection.pinned.watch(pinned => {
      if (pinned !== null && pinned !== ownPin) reveal(pinned, true);
      ownPin = null;
    }),
    ruler, () => view.destroy(),
  );

  function show(given: TextRows): void {
    if (given === last) return;
    last = given;
    const rows = { ...given, rows: given.rows.map(inOneLine) };
    const sameText = rows.rows.length === shown.rows.length
      && rows.rows.every((row, n) => row.text === shown.rows[n]?.text);
    shown = rows;
    lines = null;
    lineStyles.clear();
    pointed = -1;
    inside = rows.language === "python" || rows.language === "triton" ? quotesOf(rows.rows) : [];
    if (sameText) {
      view.dispatch({ effects: replaced.of(null) });
    } else {
      const text = rows.rows.map(row => row.text).join("\n");
      const effects = [replaced.of(null), EditorView.scrollIntoView(0, TOP)];
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, selection: { anchor: 0 },
        effects });
    }
    rule();
  }

  /** Marks one line as the one that something is at (-1: none), and brings it into view. */
  function setCurrent(line: number): void {
    if (line === current) return;
    current = line;
    view.dispatch(
      { effects: [relit.of(null), ...(line >= 0 ? [EditorView.scrollIntoView(position(line), NEAR)] : [])] });
  }

  /** Brings an element into view: its own line, or else the first of its chain. `gently`: not where one is seen
   * already. */
  function reveal(what: Key, gently = false): boolean {
    const line = lineOf(what);
    if (line === undefined) return false;
    view.dispatch({ effects: EditorView.scrollIntoView(position(line), gently ? IF_UNSEEN : NEAR) });
    return true;
  }

  /** Brings a line (from 0) into view. */
  function scrollTo(line: number): void {
    view.dispatch({ effects: EditorView.scrollIntoView(position(line), { y: "start" }) });
  }

  function lineOf(what: Key): number | undefined {
    lines ??= new Map(
      [...shown.rows.entries()].reverse().flatMap(([n, row]) => (row.stands ?? []).map(key => [key, n] as const)));
    const own = lines.get(what);
    if (own !== undefined) return own;
    const links = context.model.links.value;
    let first: number | undefined;
    for (const key of links.chain(what)) {
      const line = lines.get(key);
      if (line !== undefined && (first === undefined || line < first)) first = line;
    }
    return first;
  }

  function position(line: number): number {
    const { doc } = view.state;
    return doc.line(Math.max(1, Math.min(line + 1, doc.lines))).from;
  }

  function relight(): void {
    view.dispatch({ effects: relit.of(null) });
    rule();
  }

  /** Read with what else the editor measures: asked for at once, the page would be laid out once for each view. */
  function rule(): void {
    view.requestMeasure({
      key: ruler,
      read: () => {
        const chain = context.selection.chain.value;
        const seen = view.contentHeight <= view.scrollDOM.clientHeight;
        return chain.size === 0 || seen
          ? [] : shown.rows.flatMap((row, n) => (row.stands?.some(key => chain.has(key)) ? [n] : []));
      },
      write: lit => ruler.show(lit, shown.rows.length),
    });
  }

  function lineAt(event: Event): number {
    const element = event.target instanceof Element ? event.target.closest(".cm-line") : null;
    if (!element || !view.contentDOM.contains(element)) return -1;
    return view.state.doc.lineAt(view.posAtDOM(element)).number - 1;
  }

  function point(line: number): void {
    if (line === pointed) return;
    pointed = line;
    context.selection.hovered.value = key(line);
  }

  function pin(line: number): void {
    const what = key(line);
    if (what === null) return;
    ownPin = what;
    context.selection.pin(what);
  }

  function step(by: number): boolean {
    const line = Math.max(0, Math.min(caret() + by, view.state.doc.lines - 1));
    const at = position(line);
    view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "nearest", yMargin: 20 }) });
    pointed = -1;
    point(line);
    return true;
  }

  function state(marked?: true | ((line: Key) => void)): EditorState {
    const choose = (line: number) => {
      const what = key(line);
      if (typeof marked !== "function" || what === null) return false;
      marked(what);
      return true;
    };
    const page = () => Math.max(1, Math.floor(view.scrollDOM.clientHeight / view.defaultLineHeight) - 1);
    const all = () => view.state.doc.lines;
    const extensions: Extension[] = [
      EditorState.readOnly.of(true),
      EditorView.editable.of(false),
      EditorView.scrollHandler.of(near),
      EditorView.editorAttributes.of({ class: "ex-textview" }),
      EditorView.contentAttributes.of(() => ({ tabindex: "0", "aria-label": shown.label })),
      keymap.of([
        { key: "ArrowDown", run: () => step(1) },
        { key: "ArrowUp", run: () => step(-1) },
        { key: "PageDown", run: () => step(page()) },
        { key: "PageUp", run: () => step(-page()) },
        { key: "Home", run: () => step(-all()) },
        { key: "End", run: () => step(all()) },
        { key: "b", run: () => choose(caret()) },
        { key: "Enter", run: () => (pin(caret()), true) },
        { key: " ", run: () => (pin(caret()), true) },
      ]),
      EditorView.domEventHandlers({
        mousemove: event => point(lineAt(event)),
        mouseleave: () => point(-1),
        click: event => {
          const chosen = view.dom.ownerDocument.getSelection();
          const line = lineAt(event);
          if (line >= 0 && (!chosen || chosen.isCollapsed)) {
            view.dispatch({ selection: { anchor: position(line) } });
            pin(line);
          }
        },
        focus: () => relight(),
        blur: () => {
          pointed = -1;
          context.selection.hovered.value = null;
          relight();
        },
      }),
      painted(view => colored(view), update => has(update, replaced)),
      painted(view => lit(view), update => has(update, replaced) || has(update, relit) || update.selectionSet),
    ];
    const numbers = gutter({
      class: "ex-numbers",
      lineMarker: (view, block) => {
        const number = rowAt(view.state.doc.lineAt(block.from).number - 1)?.number;
        return number ? new NumberMarker(number) : null;
      },
      lineMarkerChange: update => has(update, replaced),
      domEventHandlers: { click: (view, { from }) => choose(view.state.doc.lineAt(from).number - 1) },
    });
    const marks = gutter({
      class: "ex-marks",
      lineMarker: (view, block) => {
        const found = rowAt(view.state.doc.lineAt(block.from).number - 1)?.marks;
        return found?.length ? new Marks(found) : null;
      },
      lineMarkerChange: update => has(update, replaced),
    });
    return EditorState.create({ extensions: [...extensions, numbers, ...(marked ? [marks] : [])] });
  }

  /** The rows in view, so that painting costs the same in a text of any length. */
  function* inView(view: EditorView): Iterable<[row: TextRow, n: number, from: number]> {
    for (const { from, to } of view.visibleRanges) {
      for (let at = from; at <= to; ) {
        const line = view.state.doc.lineAt(at);
        const row = rowAt(line.number - 1);
        if (row) yield [row, line.number - 1, line.from];
        at = line.to + 1;
      }
    }
  }

  function colored(view: EditorView): DecorationSet {
    const builder = new RangeSetBuilder<Decoration>();
    for (const [row, n, from] of inView(view)) {
      if (row.style === "heading" || row.style === "source") continue;
      for (const token of tokens(row.text, shown.language, inside[n]))
        builder.add(from + token.from, from + token.to, tokenStyle(token.kind));
    }
    return builder.finish();
  }

  function lit(view: EditorView): DecorationSet {
    const builder = new RangeSetBuilder<Decoration>();
    const pinned = context.selection.pinned.value;
    const caret = view.hasFocus ? caretIn(view) : -1;
    for (const [row, n, from] of inView(view)) {
      const classes = [
        "ex-row", colorClass(row.color ?? null), row.style ? `ex-row-${row.style}` : "",
        context.selection.look(row.stands ?? []),
        pinned !== null && row.stands?.includes(pinned) ? "ex-pinned" : "", n === current ? "ex-current" : "",
        n === caret ? "ex-caret" : "",
      ];
      builder.add(from, from, lineStyle(phrase(classes, " "), row.note, row.title));
    }
    return builder.finish();
  }

  /** One decoration for all lines that look the same: comparing them is then comparing references. */
  function lineStyle(look: string, note: string | undefined, title: string | undefined): Decoration {
    return entry(lineStyles, JSON.stringify([look, note, title]), () => {
      const attributes: { [name: string]: string } = {};
      if (note) attributes["data-note"] = note;
      if (title) attributes.title = title;
      return Decoration.line({ class: look, attributes });
    });
  }

  return { view, show, setCurrent, reveal, scrollTo, dispose, get text() { return text(); } };
}

export type TextView = ReturnType<typeof TextView>;

/** A heading between stretches of a file ends whatever string was open. */
function quotesOf(rows: readonly TextRow[]): string[] {
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

const TOKENS = new Map<TokenKind, Decoration>();

const tokenStyle = (kind: TokenKind): Decoration =>
  entry(TOKENS, kind, () => Decoration.mark({ class: `ex-tok-${kind}` }));

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
  readonly #marks: readonly TextMark[];

  constructor(marks: readonly TextMark[]) {
    super();
    this.#marks = marks;
  }

  override eq(other: GutterMarker): boolean {
    return other instanceof Marks && JSON.stringify(other.#marks) === JSON.stringify(this.#marks);
  }

  override toDOM(): Node {
    return h("span", ...this.#marks.map(({ text, title, style, share }) => {
      const made = h("span", { class: `ex-mark ${style}`, title }, text);
      if (share !== undefined)
        made.style.background =
          `linear-gradient(to right, currentColor ${Math.max(4, 100 * share).toFixed()}%, color-mix(in srgb, `
            + `currentColor 12%, transparent) 0)`;
      return made;
    }));
  }
}

const RULER_WIDTH = 8;
const LEAST_MARK = 2;

function Ruler() {
  const element = h("canvas.ex-ruler", { width: RULER_WIDTH, "aria-hidden": "true" });
  let marked: readonly number[] = [];
  let total = 1;
  let height = 0;
  const sized = new ResizeObserver(([entry]) => {
    height = Math.round(entry?.contentRect.height ?? 0);
    draw();
  });
  const dispose = () => sized.disconnect();
  sized.observe(element);

  /** Marks these lines (from 0, ascending) of a text of `of` lines. */
  function show(lines: readonly number[], of: number): void {
    marked = lines;
    total = Math.max(1, of);
    draw();
  }

  function draw(): void {
    const drawing = element.getContext("2d");
    if (!drawing || height === 0) return;
    if (element.height !== height) element.height = height;
    drawing.clearRect(0, 0, RULER_WIDTH, height);
    if (marked.length === 0) return;
    drawing.fillStyle = getComputedStyle(element).color;
    const each = height / total;
    const high = Math.max(LEAST_MARK, Math.ceil(each));
    for (const line of marked) drawing.fillRect(0, Math.floor(line * each), RULER_WIDTH, high);
  }

  return { element, show, dispose };
}

type Linking = Pick<Model, "links" | "palette" | "files">;

/** The rows of a text of a compile: what each line is about, its source line's color, and why it has none (said once
 * for a run of lines of the same reason). */
export function rowsOf(text: TextData | null | undefined, compile: CompileData, model: Linking,
    numbered = false): TextRow[] {
  let lastNote: string | undefined;
  return (text?.lines ?? []).map((line, n) => {
    const row = rowOf(line, compile, model, numbered ? String(n + 1) : undefined);
    const repeated = row.note !== undefined && row.note === lastNote;
    lastNote = row.note;
    return repeated ? { ...row, note: undefined } : row;
  });
}

function rowOf([line, id, origins]: LineData, compile: CompileData, model: Linking,
    number: string | undefined): TextRow {
  const text = model.files.value.inLine(line);
  const causes = (origins ?? []).map(origin => key(compile.id, origin));
  const own = id ? key(compile.id, id) : null;
  const color = own ? model.palette.value.of(own) : model.palette.value.ofAll(causes);
  const realOrigins = (origins ?? []).filter(origin => syntheticReason(origin) === null);
  const stands = own ? [own] : realOrigins.map(origin => key(compile.id, origin));
  if (color !== null || (!own && causes.length === 0)) return { text, stands, color, number };
  const links = model.links.value;
  const reasons = new Set((own ? [own] : causes).flatMap(each => links.synthetic(each)));
  const direct = (origins ?? []).some(isSourceLine);
  return { text, stands, color, number,
    note: reasons.size && !direct ? `no source line: ${[...reasons].join(", ")}` : undefined };
}
