// The generated code, and what compilers below made of it.

import { aria, button, choose, fill, h, MOST_OPTIONS, on } from "../../dom";
import { bytes, fileName, phrase, scaled, seconds } from "../../format";
import { own } from "../../collections";
import type { Context, Export, Pane } from "../../pane";
import type { CompileData, KernelData } from "../../record";
import { rowsOf, TextView } from "../../textview";
import { made, program } from "../../saving";
import { ends, onChange } from "../../signal";
import { halfName, whyNone } from "../../stages";
import { intel } from "./intel";
import { firstUnit, KINDS, type Spot, spotOf, type Unit, unitsOf } from "./units";

export function code(into: HTMLElement, context: Context): Pane {
  const chooser = h("select.ex-select", { "aria-label": "Kernel or wrapper" });
  const kinds = h("div.ex-kinds", { role: "radiogroup", "aria-label": "Language" });
  const facts = h("div.ex-facts-line");
  /** Intel's syntax instead of AT&T's. */
  const syntax = button("ex-button", "Intel syntax", () => (inIntel.value = !inIntel.value));
  const nothing = h("p.ex-hint");
  const body = h("div.ex-body-text");
  let units: readonly Unit[] = [];
  let shownUnit: Unit | undefined;
  let shownCompile = "";
  const current = (): CompileData | undefined => context.looked.value;
  const bar = h("div.ex-bar", chooser, kinds, syntax);
  into.append(h("div.ex-pane", bar, facts, nothing, body));
  const language = context.setting<string>("kind", "");
  const inIntel = context.setting<boolean>("intel", false);
  const view = TextView(body, context);
  on(chooser, "change", () => {
    shownUnit = units.find(each => each.id === chooser.value);
    render();
  });
  const { selection, looked, stage } = context;
  const dispose = ends(
    looked.watch(reload), onChange(language, render), onChange(inIntel, render),
    onChange(stage, followStage),
    onChange(selection.pinned, pinned => {
      if (pinned !== null && !holdsNone(pinned)) reveal(pinned);
    }),
    view,
  );

  function reveal(what: string): boolean {
    const compile = current();
    const spot = compile && spotOf(units, compile.id, context.model.links.value, what, here());
    if (!spot) return false;
    if (spot.unit !== shownUnit || spot.kind !== here()?.kind) {
      shownUnit = spot.unit;
      language.value = spot.kind;
      render();
    }
    return view.reveal(what) || (view.scrollTo(0), true);
  }

  function exports() {
    const spot = here();
    if (!spot) return [];
    const { kernel, id } = spot.unit;
    const name = fileName(`${kernel?.function ?? id} ${spot.kind}`);
    return [{ kind: "txt" as const, name, make: async () => view.text }, ...(kernel ? [programOf(kernel)] : [])];
  }

  function programOf({ function: name, id }: KernelData): Export {
    return program(context.host, fileName(name), shownCompile, id);
  }

  function here(): Spot | undefined {
    const unit = shownUnit;
    if (!unit) return undefined;
    return { unit, kind: unit.texts.has(language.value) ? language.value : ([...unit.texts.keys()][0] ?? "") };
  }

  /** Whether a pinned element is of another compile, so that nothing of it is here. */
  function holdsNone(pinned: string): boolean {
    const own = `${shownCompile}|`;
    return ![...context.model.links.value.chain(pinned)].some(each => each.startsWith(own));
  }

  function reload(): void {
    const compile = current();
    units = compile ? unitsOf(compile) : [];
    const listed = units.slice(0, MOST_OPTIONS);
    fill(chooser, ...[...new Set(listed.map(each => each.half))].map(half =>
      h("optgroup", { label: (compile && halfName(compile, half.name)) || compile?.title },
        ...listed.filter(each => each.half === half).map(each => h("option", { value: each.id }, each.label)))));
    const kept = compile?.id === shownCompile ? units.find(each => each.id === shownUnit?.id) : undefined;
    shownUnit = kept ?? firstUnit(units);
    shownCompile = compile?.id ?? "";
    render();
  }

  function followStage(): void {
    const stage = current()?.stages?.find(each => each.id === context.stage.value);
    if (!stage?.half || !["generate", "build"].includes(stage.name) || stage.half === shownUnit?.half.name) return;
    shownUnit = firstUnit(units, stage.half) ?? shownUnit;
    render();
  }

  function render(): void {
    const [compile, spot] = [current(), here()];
    nothing.hidden = spot !== undefined;
    body.hidden = spot === undefined;
    chooser.hidden = spot === undefined;
    facts.hidden = spot === undefined;
    const { mnemonics } = context.model.record.value;
    syntax.hidden = spot?.kind !== "asm" || !mnemonics;
    aria(syntax, "pressed", inIntel.value);
    if (!spot || !compile) {
      nothing.textContent = whyNone("code", compile);
      fill(kinds);
      return;
    }
    choose(chooser, spot.unit.id, spot.unit.label);
    fill(kinds, ...[...spot.unit.texts.keys()].map(kind => kindButton(kind, spot)));
    fill(facts, ...factsOf(spot.unit));
    const text = spot.unit.texts.get(spot.kind);
    const label = `${own(KINDS, spot.kind) ?? spot.kind} of ${spot.unit.label}`;
    const remarks = spot.unit.kernel?.remarks ?? {};
    const rows = rowsOf(text, compile, context.model, true).map((row, n) => {
      const remark = own(remarks, text?.lines[n]?.[1] ?? "");
      if (remark) return { ...row, note: remark };
      return mnemonics && inIntel.value && spot.kind === "asm" ? { ...row, text: intel(row.text, mnemonics) } : row;
    });
    view.show({ rows, language: text?.language ?? "text", label });
  }

  function kindButton(kind: string, spot: Spot): HTMLElement {
    const chosen = kind === spot.kind;
    const made = button("ex-button", own(KINDS, kind) ?? kind, () => chooseKind(kind),
      { role: "radio", "aria-checked": String(chosen), tabindex: chosen ? 0 : -1 });
    on(made, "keydown", event => {
      const all = [...spot.unit.texts.keys()];
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      chooseKind(all[(all.indexOf(kind) + by + all.length) % all.length] ?? kind);
    });
    return made;
  }

  function chooseKind(kind: string): void {
    language.value = kind;
    kinds.querySelector<HTMLElement>("[aria-checked=true]")?.focus();
  }

  function factsOf({ half, kernel }: Unit): HTMLElement[] {
    const { facts = [], loops = [] } = kernel ?? {};
    const measured = kernel
      ? [kernel.bytes && `${bytes(kernel.bytes)} moved`, kernel.flops && scaled(kernel.flops, "FLOP"),
        kernel.seconds == null ? "not timed" : `${seconds(kernel.seconds)} a call`]
      : [];
    const lines: HTMLElement[] =
      [h("span", phrase([half.target, ...measured, ...facts.slice(loops.length && 1)], " · "))];
    const loopTexts = loops.map(
      ({ axis, kind, size, tile = 0 }) => `${kind} ${axis} < ${size}${tile > 1 ? `, ${tile} at a time` : ""}`);
    if (loopTexts.length)
      lines.push(h("details", h("summary", `Loops: ${[...new Set(loopTexts)].join("; ")}`), ...facts.slice(0, 1)));
    if (half.runs === false) lines.push(h("strong.ex-warned-text", "⚠ not run on this machine"));
    if (kernel) {
      const output = h("pre");
      const tell = (text: string) => (output.textContent = text);
      const ask = () => void made(context.host, `throughput("${kernel.id}")`, "throughput", shownCompile, kernel.id)
        .then(tell, (error: Error) => tell(error.message));
      lines.push(button("ex-link", "Save as a program", () => context.save(programOf(kernel))));
      if (kernel.lowered?.["asm"]) lines.push(button("ex-link", "Throughput", ask), output);
    }
    return lines;
  }

  return { reveal, exports, dispose };
}
