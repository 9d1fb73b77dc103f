// The generated code, and what compilers below made of it.

import { button, fill, h, on } from "../../dom";
import { fileName } from "../../filename";
import { bytes, count, phrase, seconds } from "../../format";
import { own } from "../../gather";
import type { Context, Pane, PaneKind } from "../../pane";
import type { BuildData, CompileData } from "../../record";
import { rowsOf } from "../../rows";
import { onChange } from "../../signal";
import { halfName } from "../../stages";
import { TextView } from "../../textview";
import { commandLine, firstUnit, KINDS, type Spot, spotOf, type Unit, unitsOf } from "./units";
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
  readonly #nothing = h("p.ex-hint");
  readonly #body = h("div.ex-body-text");
  readonly #view: TextView;
  readonly #kind;
  readonly #disposers: (() => void)[];
  #units: readonly Unit[] = [];
  #unit: Unit | undefined;
  #shownCompile = "";
  readonly #context: Context;

  constructor(into: HTMLElement, context: Context) {
    this.#context = context;
    const bar = h("div.ex-bar", this.#chooser, this.#kinds);
    into.append(h("div.ex-pane", bar, this.#facts, this.#nothing, this.#body));
    this.#kind = context.setting<string>("kind", "");
    this.#view = new TextView(this.#body, context);
    on(this.#chooser, "change", () => {
      this.#unit = this.#units.find(each => each.id === this.#chooser.value);
      this.#render();
    });
    const { selection, looked, stage } = context;
    this.#disposers = [
      looked.watch(() => this.#reload()), onChange(this.#kind, () => this.#render()),
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
    const name = fileName(`${spot.unit.kernel?.function ?? spot.unit.id} ${spot.kind}`);
    return [{ kind: "txt" as const, name, make: async () => this.#view.text }];
  }

  dispose(): void {
    this.#disposers.forEach(dispose => dispose());
    this.#view.dispose();
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
    if (!spot || !compile) {
      this.#nothing.textContent = emptiness(compile);
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
    this.#view.show({ rows: rowsOf(text, compile, this.#context.model, true), language: text?.language ?? "text", label });
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
    const measured = kernel
      ? [`${bytes(kernel.bytes)} moved`, kernel.flops ? `${kernel.flops.toLocaleString("en")} floating-point operations` : "", kernel.seconds == null ? "not timed" : `${seconds(kernel.seconds)} a call`]
      : [];
    const lines = [h("span", phrase([half.target, ...measured], " · "))];
    const loops = (kernel?.loops ?? []).map(({ axis, kind, size, tile = 0 }) => `${kind} ${axis} < ${size}${tile > 1 ? ` in tiles of ${tile}` : ""}`);
    if (loops.length) lines.push(h("span", `Loops: ${loops.join("; ")}`));
    if (half.runs === false) lines.push(h("strong.ex-warned-text", "⚠ compiled, never run here"));
    return [...lines, ...(half.builds ?? []).map(build => buildFacts(build))];
  }
}

function buildFacts(build: BuildData): HTMLElement {
  const time = build.cached ? `from the cache in ${seconds(build.seconds)}` : `built in ${seconds(build.seconds)}`;
  const command = h("code.ex-command", commandLine(build.command));
  return h(
    "details.ex-build", h("summary", `${build.tool} · ${time}`),
    h("div", h("p", build.version), command, h("p", "→ ", h("code", build.output))),
  );
}

function emptiness(compile: CompileData | undefined): string {
  if (!compile) return "There is no compile yet.";
  if (compile.fallback) return `No code was generated: ${compile.fallback.title}. The graph runs eagerly.`;
  const failed = compile.stages?.find(each => each.error);
  if (failed) return `No code was generated: stage ${failed.name} failed before it.`;
  if (compile.stages?.some(each => each.name === "capture" && each.graph?.nodes.length === 0)) return "The graph is empty: there is nothing to compute, so no code.";
  return `No code is in this record yet (${count(compile.stages?.length ?? 0, "stage")} so far).`;
}
