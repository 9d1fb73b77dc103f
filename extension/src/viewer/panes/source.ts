// The user's source, with what became of its lines, and its editor: the text and the compiler's settings, compiled
// again as they are changed.

import { aria, button, fill, h, on } from "../dom";
import type { Key } from "../element";
import { count, fileName, phrase, seconds } from "../format";
import type { Context, Pane } from "../pane";
import { breaksByLine, changesByLine, guardsByLine, kernelTime, running, type Stretch, stretchesOf, timeShare } from
  "../sources";
import { watchAny, onChange } from "../signal";
import { type TextMark, type TextRow, TextView } from "../textview";
import { menuButton } from "../overlays";

export function source(into: HTMLElement, context: Context): Pane {
  const places = h("select.ex-select", { "aria-label": "Go to a function or a mark" });
  const body = h("div.ex-body-text");
  const nothing = h("p.ex-hint");
  const whole = context.setting<boolean>("library", false);
  const fold = button("ex-button", "Libraries", () => (whole.value = !whole.value),
    { title: "Libraries: show their lines, or one row for each function" });
  const guards = context.setting<boolean>("guards", false);
  const shields = button("ex-button", "Guards", () => (guards.value = !guards.value),
    { title: "Mark the lines that guards come from" });
  const edit = editor(context);
  const pencil = button("ex-button", "Edit", () => {
    edit.element.hidden = !edit.element.hidden;
    aria(pencil, "pressed", !edit.element.hidden);
  }, { title: "Edit: change the program and see the effect", "aria-pressed": "false" });
  edit.element.hidden = true;
  const bar = h("div.ex-bar", places, shields, fold, pencil);
  into.append(h("div.ex-pane", bar, edit.element, nothing, body));
  const view = TextView(body, context, line => {
    const { breakpoint } = context;
    const [place, at] = [placeOf(context, line), stopsAt(breakpoint.value)];
    const left = at.includes(place) ? at.filter(each => each !== place) : [...at, place];
    breakpoint.value = left.length ? `at="${left.join("|")}"` : "";
  });
  on(places, "change", () => {
    view.scrollTo(Number(places.value));
    places.selectedIndex = 0;
  });
  const render = () => {
    const { rows, headings, marked, folds } = sourceRows(context, { library: whole.value, guards: guards.value });
    aria(shields, "pressed", guards.value);
    fold.hidden = !folds;
    aria(fold, "pressed", whole.value);
    const groups = Object.entries({ Functions: headings.length > 1 ? headings : [], Marks: marked })
      .filter(([, found]) => found.length);
    places.hidden = !groups.length;
    fill(places, h("option", "Jump to…"),
      ...groups.map(
        ([label, found]) => h("optgroup", { label }, ...found.map(([n, text]) => h("option", { value: n }, text)))));
    nothing.hidden = rows.length > 0;
    nothing.textContent = context.model.record.value.compiles.length
      ? "The source could not be read when the record was made." : "Nothing has been compiled yet.";
    body.hidden = rows.length === 0;
    view.show({ rows, language: "python", label: "Source" });
  };
  const end = watchAny(render, context.model.record, context.compile, whole, guards, context.breakpoint);
  return {
    reveal: what => view.reveal(what),
    exports: () =>
      [{ kind: "txt", name: fileName(`${context.model.record.value.title} source`), make: async () => view.text }],
    dispose: () => {
      end();
      edit.dispose();
      view.dispose();
    },
  };
}

interface SourceText {
  readonly rows: readonly TextRow[];
  /** Lines of the view where a stretch begins, and where a mark is, with what is said there. */
  readonly headings: readonly (readonly [number, string])[];
  readonly marked: readonly (readonly [number, string])[];
  /** Whether there is library code, of which a function is one row unless all of it is asked for. */
  readonly folds: boolean;
}

/** The places of a breakpoint that is lines. */
const stopsAt = (breakpoint: string): string[] => /^at="(.*)"$/.exec(breakpoint)?.[1]?.split("|") ?? [];

/** "make.py:9", of a line's key. */
function placeOf({ model }: Context, line: Key): string {
  const [, file = "", at] = /^\|(.*):(\d+)$/.exec(line) ?? [];
  return model.files.value.place(file, Number(at));
}

function sourceRows(context: Context, shown: { readonly library: boolean; readonly guards: boolean }): SourceText {
  const { model, compile } = context;
  const record = model.record.value;
  const stops = new Set(stopsAt(context.breakpoint.value));
  const compiles = running(record.compiles, compile.value);
  const palette = model.palette.value;
  const all = stretchesOf(record);
  /** The first line of a stretch that is folded, by each of its lines. */
  const folded = new Map<Key, Key>();
  if (!shown.library) for (const each of all) if (each.library) for (const line of linesOf(each))
    folded.set(line, linesOf(each)[0]!);
  const time = kernelTime(compiles, model.links.value, line => folded.get(line) ?? line);
  const [guards, breaks, changes] = [guardsByLine(compiles), breaksByLine(compiles), changesByLine(record)];
  const rows: TextRow[] = [];
  const headings: [number, string][] = [];
  const marked: [number, string][] = [];
  const marksOf = (lines: readonly Key[], at: string): TextMark[] => {
    const found: TextMark[] = [];
    if (lines.some(line => stops.has(placeOf(context, line))))
      found.push({ text: "●", title: "Breakpoint: in the pane Bytecode, c goes there", style: "ex-mark-break" });
    const broke = [...new Set(lines.flatMap(line => breaks.get(line) ?? []))];
    if (broke.length)
      found.push({ text: `⤶${broke.length > 1 ? broke.length : ""}`, title: `Graph break: ${broke.join("\n")}`,
        style: "ex-mark-break" });
    const changed = new Set(lines.flatMap(line => changes.get(line) ?? []));
    if (changed.size)
      found.push({ text: "↻", title: `Recompiled: ${[...changed].join("\n")}`, style: "ex-mark-break" });
    const asked = lines.flatMap(line => guards.get(line) ?? []);
    if (asked.length && shown.guards)
      found.push(
        { text: `⛨${asked.length}`,
          title: [`${count(asked.length, "guard comes", "guards come")} from here:`, ...asked].join("\n"),
          style: "ex-mark-guard" });
    const spent = time.lines.get(lines[0]!);
    if (spent) {
      const share = Math.min(1, (spent.alone + spent.shared) / time.total);
      const title = `${timeShare(spent, time.total)} of the kernels' time, ${seconds(share * time.total)}: `
        + spent.kernels.join(", ");
      found.push({ text: "", title, style: "ex-mark-time", share });
    }
    for (const mark of found) marked.push([rows.length, `${at}  ${mark.title.split("\n")[0]}`]);
    return found;
  };
  for (const each of all) {
    const { name, first, lines } = each;
    const keys = linesOf(each);
    const last = first + lines.length - 1;
    const fold = folded.has(keys[0]!);
    const heading =
      phrase([each.function, fold
        ? `${name}:${first}` : `${name}, ${first === last ? `line ${first}` : `lines ${first} to ${last}`}`], " · ");
    headings.push([rows.length, heading]);
    if (fold) {
      const colored = keys.filter(line => palette.of(line) !== null);
      const marks = marksOf(keys, heading);
      if (colored.length || marks.length)
        rows.push({ text: heading, stands: colored, color: palette.ofAll(colored), number: String(first), marks,
          style: "heading" });
      else headings.pop();
      continue;
    }
    rows.push({ text: heading, style: "heading" });
    for (const [n, text] of lines.entries()) {
      const what = keys[n]!;
      rows.push({ text, stands: [what], color: palette.of(what), number: String(first + n),
        marks: marksOf([what], `${name}:${first + n}`) });
    }
  }
  return { rows, headings, marked, folds: all.some(each => each.library) };
}

const linesOf = ({ file, first, lines }: Stretch): Key[] => lines.map((_, n) => `|${file}:${first + n}`);

function editor(context: Context): { readonly element: HTMLElement; readonly dispose: () => void } {
  const { abilities, edits, host } = context;
  const element = h("section.ex-edit", { "aria-label": "Edit" });
  const message = h("pre.ex-said", { role: "status" });
  let shown = "";
  const render = () => {
    const { functions = [], passes, no_edit: why } = abilities.value ?? {};
    const now = JSON.stringify([functions, passes, why, !host.live.value]);
    if (now === shown) return;
    shown = now;
    if (!host.live.value) {
      fill(element, h("p.ex-say", "No Jupyter kernel is attached to compile the change. Run the cell again."));
      return;
    }
    if (!passes) {
      fill(element, h("p.ex-say", `This cannot be edited: ${why ?? "the kernel has not said what it can compile"}.`));
      return;
    }
    const text = h("textarea.ex-field", { "aria-label": "Source to change", spellcheck: "false" });
    const which = h("select.ex-select", { "aria-label": "Function to change" },
      ...functions.map((each, n) => h("option", { value: n }, `${each.name}, from line ${each.first}`)));
    const chosen = () => functions[Number(which.value)];
    const refill = () => {
      text.value = chosen()?.text ?? "";
      text.rows = Math.min(12, text.value.split("\n").length + 1);
    };
    on(which, "change", refill);
    on(text, "input", () => {
      const of = chosen();
      if (of)
        edits.change(text.value === of.text
          ? { file: "", first: 0, text: "" } : { file: of.file, first: of.first, text: text.value });
    });
    const sizes = h("select.ex-select", { "aria-label": "Sizes" }, h("option", { value: "" }, "Sizes as explored"),
      h("option", { value: "true" }, "Dynamic sizes"), h("option", { value: "false" }, "Fixed sizes"));
    on(sizes, "change", () => edits.change({ dynamic: sizes.value ? sizes.value === "true" : null }));
    const fuse = h("input", { type: "checkbox", checked: true, onchange: () => edits.change({ fuse: fuse.checked }) });
    const left = (name: string) => {
      const without = edits.changes.value.without ?? [];
      return { without: without.includes(name) ? without.filter(each => each !== name) : [...without, name] };
    };
    const items = () =>
      passes.map(
        name => ({ label: name, checked: !edits.changes.value.without?.includes(name),
          run: () => edits.change(left(name)) }));
    const undo = button("ex-action", "Undo all", () => {
      refill();
      sizes.value = "";
      fuse.checked = true;
      edits.undo();
    });
    refill();
    which.hidden = functions.length < 2;
    fill(element,
      which, text,
      h("div.ex-actions", sizes, h("label.ex-check", fuse, "Fuse"), menuButton("Passes that run", "Passes", items),
        button("ex-action", "Run and time", () => edits.send(true)), undo,
        button("ex-link", "Difference", () => context.show("diff", null))),
      message,
    );
  };
  const tell = () => {
    message.textContent = edits.note.value.text;
    message.classList.toggle("ex-no", !!edits.note.value.failed);
  };
  const disposers = [abilities.watch(render), onChange(host.live, render), edits.note.watch(tell)];
  return { element, dispose: () => disposers.forEach(dispose => dispose()) };
}
