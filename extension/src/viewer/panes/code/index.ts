// The generated code, and what compilers below made of it.

import { aria, button, fill, h, on } from "../../dom";
import { fileName } from "../../filename";
import { bytes, phrase, scaled, seconds } from "../../format";
import { own } from "../../gather";
import type { Context, Export, Pane, PaneKind } from "../../pane";
import type { CompileData, KernelData } from "../../record";
import { rowsOf } from "../../rows";
import { made, program } from "../../saving";
import { onChange } from "../../signal";
import { halfName, whyNone } from "../../stages";
import { TextView } from "../../textview";
import { intel } from "./intel";
import { firstUnit, KINDS, type Spot, spotOf, type Unit, unitsOf } from "./units";
import { TITLES } from "../titles";

export const code: PaneKind = {
  id: "code",
  title: TITLES.code,
  open: (into, context) => new Code(into, context),
};

class Code implements Pane {
  readonly #chooser = h("select.ex-select", { "aria-label": "Kernel or wrapper" });
  readonly #kinds = h("div.ex-kinds", { role: "radiogroup", "aria-label": "Language" });
  readonly #facts = h("div.ex-facts-line");
  /** Intel's syntax instead of AT&T's. */
  readonly #syntax = button("ex-button", "Intel syntax", () => (this.#intel.value = !this.#intel.value));
  readonly #nothing = h("p.ex-hint");
  readonly #body = h("div.ex-body-text");
  readonly #view: TextView;
  readonly #kind;
  readonly #intel;
  readonly #disposers: (() => void)[];
  #units: readonly Unit[] = [];
  #unit: Unit | undefined;
  #shownCompile = "";
  readonly #context: Context;

  constructor(into: HTMLElement, context: Context) {
    this.#context = context;
    const bar = h("div.ex-bar", this.#chooser, this.#kinds, this.#syntax);
    into.append(h("div.ex-pane", bar, this.#facts, this.#nothing, this.#body));
    this.#kind = context.setting<string>("kind", "");
    this.#intel = context.setting<boolean>("intel", false);
    this.#view = new TextView(this.#body, context);
    on(this.#chooser, "change", () => {
      this.#unit = this.#units.find(each => each.id === this.#chooser.value);
      this.#render();
    });
    const { selection, looked, stage } = context;
    this.#disposers = [
      looked.watch(() => this.#reload()), onChange(this.#kind, () => this.#render()), onChange(this.#intel, () => this.#render()),
      onChange(stage, () => this.#followStage()),
      onChange(selection.pinned, pinned => {
        if (pinned !== null && !this.#holdsNone(pinned)) this.reveal(pinned);
      }),
    ];
  }

  reveal(what: string): boolean {
    const compile = this.#compile;
    const spot = compile && spotOf(this.#units, compile.id, this.#context.model.links.value, what, this.#spot);
    if (!spot) return false;
    if (spot.unit !== this.#unit || spot.kind !== this.#spot?.kind) {
      this.#unit = spot.unit;
      this.#kind.value = spot.kind;
      this.#render();
    }
    return this.#view.reveal(what) || (this.#view.scrollTo(0), true);
  }

  exports() {
    const spot = this.#spot;
    if (!spot) return [];
    const { kernel, id } = spot.unit;
    const name = fileName(`${kernel?.function ?? id} ${spot.kind}`);
    return [{ kind: "txt" as const, name, make: async () => this.#view.text }, ...(kernel ? [this.#program(kernel)] : [])];
  }

  dispose(): void {
    this.#disposers.forEach(dispose => dispose());
    this.#view.dispose();
  }

  #program({ function: name, id }: KernelData): Export {
    return program(this.#context.host, fileName(name), this.#shownCompile, id);
  }

  get #compile(): CompileData | undefined {
    return this.#context.looked.value;
  }

  get #spot(): Spot | undefined {
    const unit = this.#unit;
    if (!unit) return undefined;
    return { unit, kind: unit.texts.has(this.#kind.value) ? this.#kind.value : ([...unit.texts.keys()][0] ?? "") };
  }

  /** Whether a pinned element is of another compile, so that nothing of it is here. */
  #holdsNone(pinned: string): boolean {
    const own = `${this.#shownCompile}|`;
    return ![...this.#context.model.links.value.chain(pinned)].some(each => each.startsWith(own));
  }

  #reload(): void {
    const compile = this.#compile;
    this.#units = compile ? unitsOf(compile) : [];
    const kept = compile?.id === this.#shownCompile ? this.#units.find(each => each.id === this.#unit?.id) : undefined;
    this.#unit = kept ?? firstUnit(this.#units);
    this.#shownCompile = compile?.id ?? "";
    this.#render();
  }

  #followStage(): void {
    const stage = this.#compile?.stages?.find(each => each.id === this.#context.stage.value);
    if (!stage?.half || !["generate", "build"].includes(stage.name) || stage.half === this.#unit?.half.name) return;
    this.#unit = firstUnit(this.#units, stage.half) ?? this.#unit;
    this.#render();
  }

  #render(): void {
    const [compile, spot] = [this.#compile, this.#spot];
    this.#nothing.hidden = spot !== undefined;
    this.#body.hidden = spot === undefined;
    this.#chooser.hidden = spot === undefined;
    this.#facts.hidden = spot === undefined;
    const { mnemonics } = this.#context.model.record.value;
    this.#syntax.hidden = spot?.kind !== "asm" || !mnemonics;
    aria(this.#syntax, "pressed", this.#intel.value);
    if (!spot || !compile) {
      this.#nothing.textContent = whyNone("code", compile);
      fill(this.#kinds);
      return;
    }
    const halves = [...new Set(this.#units.map(each => each.half))];
    fill(this.#chooser, ...halves.map(half =>
      h("optgroup", { label: halfName(compile, half.name) || compile.title },
        ...this.#units.filter(each => each.half === half).map(each => h("option", { value: each.id, selected: each === spot.unit }, each.label)))));
    fill(this.#kinds, ...[...spot.unit.texts.keys()].map(kind => this.#kindButton(kind, spot)));
    fill(this.#facts, ...this.#factsOf(spot.unit));
    const text = spot.unit.texts.get(spot.kind);
    const label = `${own(KINDS, spot.kind) ?? spot.kind} of ${spot.unit.label}`;
    const remarks = spot.unit.kernel?.remarks ?? {};
    const rows = rowsOf(text, compile, this.#context.model, true).map((row, n) => {
      const said = own(remarks, text?.lines[n]?.[1] ?? "");
      if (said) return { ...row, note: said };
      return mnemonics && this.#intel.value && spot.kind === "asm" ? { ...row, text: intel(row.text, mnemonics) } : row;
    });
    this.#view.show({ rows, language: text?.language ?? "text", label });
  }

  #kindButton(kind: string, spot: Spot): HTMLElement {
    const chosen = kind === spot.kind;
    const made = button("ex-button", own(KINDS, kind) ?? kind, () => this.#choose(kind), { role: "radio", "aria-checked": String(chosen), tabindex: chosen ? 0 : -1 });
    on(made, "keydown", event => {
      const all = [...spot.unit.texts.keys()];
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      this.#choose(all[(all.indexOf(kind) + by + all.length) % all.length] ?? kind);
    });
    return made;
  }

  #choose(kind: string): void {
    this.#kind.value = kind;
    this.#kinds.querySelector<HTMLElement>("[aria-checked=true]")?.focus();
  }

  #factsOf({ half, kernel }: Unit): HTMLElement[] {
    const { facts = [], loops = [] } = kernel ?? {};
    const measured = kernel
      ? [kernel.bytes && `${bytes(kernel.bytes)} moved`, kernel.flops && scaled(kernel.flops, "FLOP"), kernel.seconds == null ? "not timed" : `${seconds(kernel.seconds)} a call`]
      : [];
    const lines: HTMLElement[] = [h("span", phrase([half.target, ...measured, ...facts.slice(loops.length && 1)], " · "))];
    const told = loops.map(({ axis, kind, size, tile = 0 }) => `${kind} ${axis} < ${size}${tile > 1 ? ` in tiles of ${tile}` : ""}`);
    if (told.length) lines.push(h("details", h("summary", `Loops: ${told.join("; ")}`), ...facts.slice(0, 1)));
    if (half.runs === false) lines.push(h("strong.ex-warned-text", "⚠ not run on this machine"));
    if (kernel) {
      const said = h("pre");
      const tell = (text: string) => (said.textContent = text);
      const ask = () => void made(this.#context.host, `throughput("${kernel.id}")`, "throughput", this.#shownCompile, kernel.id).then(tell, (error: Error) => tell(error.message));
      lines.push(button("ex-link", "Save as a program", () => this.#context.save(this.#program(kernel))));
      if (kernel.lowered?.["asm"]) lines.push(button("ex-link", "Throughput", ask), said);
    }
    return lines;
  }
}
