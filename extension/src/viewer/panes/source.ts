// The user's source, with what became of its lines.

import { button, h } from "../dom";
import { fileName } from "../filename";
import { count, seconds } from "../format";
import type { Context, Pane, PaneKind } from "../pane";
import { breaksByLine, guardsByLine, kernelTime, running, sourceFiles, timeShare } from "../sources";
import { onChange } from "../signal";
import { type Mark, type Row, TextView } from "../textview";
import { TITLES } from "./titles";

export const source: PaneKind = {
  id: "source",
  title: TITLES.source,
  about: {
    text:
      "The Python that was compiled: every line that became part of a graph, with the functions that were called along the way. "
      + "A line's colour is the colour of all that it caused, in every pane. In the margin: ⤶ where the graph breaks, ⛨ and how many "
      + "guards come from the line (if asked for), and a bar for the kernels' measured time. A kernel often serves several "
      + "lines: ≤38 % means that all of it is shared, 20–58 % that 20 % is the line's own.",
    paper: "TorchDynamo captures graphs from Python bytecode, so that the source needs no changes (section 3).",
    stock: "Stack traces in node.meta[\"stack_trace\"]; TORCH_LOGS=\"graph_breaks,guards\" for the marks.",
  },
  open(into: HTMLElement, context: Context): Pane {
    const files = h("select.ex-select", { "aria-label": "Go to a file" });
    const marks = h("select.ex-select", { "aria-label": "Go to a mark" });
    const body = h("div.ex-body-text");
    const nothing = h("p.ex-hint");
    const whole = context.setting<boolean>("library", false);
    const fold = button("ex-button", "Library code", () => (whole.value = !whole.value), { title: "Library code: show all lines, or only lines that produced output" });
    const guards = context.setting<boolean>("guards", false);
    const shields = button("ex-button", "Guards", () => (guards.value = !guards.value), { title: "Mark the lines that guards come from" });
    const bar = h("div.ex-bar", files, marks, shields, fold);
    into.append(h("div.ex-pane", bar, nothing, body));
    const view = new TextView(body, context, true);
    const jump = (select: HTMLSelectElement) => select.addEventListener("change", () => {
      if (select.value !== "") view.scrollTo(Number(select.value));
      select.selectedIndex = 0;
    });
    jump(files);
    jump(marks);
    const render = () => {
      const { rows, headings, marked, folds } = sourceRows(context, { library: whole.value, guards: guards.value });
      shields.setAttribute("aria-pressed", String(guards.value));
      fold.hidden = !folds;
      fold.setAttribute("aria-pressed", String(whole.value));
      files.hidden = headings.length < 2;
      files.replaceChildren(option("", `Files (${headings.length})`), ...headings.map(([n, text]) => option(String(n), text)));
      marks.hidden = marked.length === 0;
      marks.replaceChildren(option("", `Jump to… (${marked.length})`), ...marked.map(([n, text]) => option(String(n), text)));
      nothing.hidden = rows.length > 0;
      nothing.textContent = context.model.record.value.compiles.length
        ? "The record holds no source: it was not there to be read when the record was made." : "Nothing was compiled yet.";
      body.hidden = rows.length === 0;
      view.show({ rows, language: "python", label: "Source" });
    };
    const disposers = [context.model.record.watch(render), context.compile.watch(render), onChange(whole, render), onChange(guards, render)];
    return {
      reveal: what => view.reveal(what),
      exports: () => [{ kind: "txt", name: fileName(`${context.model.record.value.title} source`), make: async () => view.text }],
      dispose: () => {
        disposers.forEach(dispose => dispose());
        view.dispose();
      },
    };
  },
};

function option(value: string, text: string): HTMLOptionElement {
  return h("option", { value }, text);
}

interface Shown {
  readonly rows: readonly Row[];
  /** Lines of the view where a stretch begins, and where a mark is, with what is said there. */
  readonly headings: readonly (readonly [number, string])[];
  readonly marked: readonly (readonly [number, string])[];
  /** Whether there is library code, of which only lines with a colour or a mark are shown unless all of it is asked for. */
  readonly folds: boolean;
}

function sourceRows({ model, compile }: Context, shown: { readonly library: boolean; readonly guards: boolean }): Shown {
  const record = model.record.value;
  const compiles = running(record.compiles, compile.value);
  const palette = model.palette.value;
  const time = kernelTime(compiles, model.links.value);
  const [guards, breaks] = [guardsByLine(compiles), breaksByLine(compiles)];
  const rows: Row[] = [];
  const headings: [number, string][] = [];
  const marked: [number, string][] = [];
  const all = sourceFiles(record);
  for (const { file, name, stretches, library } of all) {
    for (const { first, lines } of stretches) {
      const last = first + lines.length - 1;
      const heading = `${name}, ${first === last ? `line ${first}` : `lines ${first} to ${last}`}`;
      headings.push([rows.length, heading]);
      rows.push({ text: heading, style: "heading" });
      for (const [n, text] of lines.entries()) {
        const what = `|${file}:${first + n}`;
        const spent = time.lines.get(what);
        const found: Mark[] = [];
        for (const why of breaks.get(what) ?? []) found.push({ text: "⤶", title: `Graph break: ${why}`, style: "ex-mark-break" });
        const asked = guards.get(what);
        if (asked && shown.guards) found.push({ text: `⛨${asked.length}`, title: [`${count(asked.length, "guard comes", "guards come")} from this line:`, ...asked].join("\n"), style: "ex-mark-guard" });
        if (spent) {
          const share = Math.min(1, (spent.alone + spent.shared) / time.total);
          const title = `${timeShare(spent, time.total)} of the kernels' time, ${seconds(share * time.total)}: ${spent.kernels.join(", ")}`;
          found.push({ text: "", title, style: "ex-mark-time", share });
        }
        if (library && !shown.library && found.length === 0 && palette.of(what) === null) continue;
        for (const mark of found) marked.push([rows.length, `${name}:${first + n}  ${mark.title.split("\n")[0]}`]);
        rows.push({ text, stands: [what], colour: palette.of(what), number: String(first + n), marks: found });
      }
    }
  }
  return { rows, headings, marked, folds: all.some(each => each.library) };
}
