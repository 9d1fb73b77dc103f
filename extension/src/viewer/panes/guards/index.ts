// What must hold for the compiled code to be used, and which calls would break it.

import { DataTable, type Column } from "../../datatable";
import { button, fill, h } from "../../dom";
import { isSourceLine, key, parts, syntheticReason, type Key } from "../../element";
import { Facets, facetsOf } from "../../facets";
import { count, phrase, seconds } from "../../format";
import { whyNone } from "../../stages";
import type { Context, Export, Pane, PaneKind } from "../../pane";
import { part } from "../../picture";
import type { CompileData, GlobalStateData, GuardData, InputData } from "../../record";
import { type Dispose, Signal } from "../../signal";
import { decide, type Call, type Decision, type Outcome } from "./check";
import { seenBy } from "./described";
import { form } from "./form";
import { outlook, type Outlook } from "./outlook";
import { TITLES } from "../titles";

export const guards: PaneKind = {
  id: "guards",
  title: TITLES.guards,
  open: (into, context) => new GuardsPane(into, context),
};

const MARKS: { readonly [outcome in Outcome]: string } = { holds: "✓ holds", fails: "✕ fails", undecided: "? undecided" };
const LOOKS: { readonly [outcome in Outcome]: string } = { holds: "ex-yes", fails: "ex-no", undecided: "ex-unsure" };
const ORDER: { readonly [outcome in Outcome]: number } = { fails: 0, undecided: 1, holds: 2 };

class GuardsPane implements Pane {
  readonly #table: DataTable<Decision>;
  readonly #outcomes: Facets;
  readonly #properties: Facets;
  readonly #owners: Facets;
  readonly #filters: { readonly outcomes: Signal<readonly string[]>; readonly owners: Signal<readonly string[]>; readonly properties: Signal<readonly string[]>; readonly words: Signal<string> };
  readonly #words: HTMLInputElement;
  readonly #answer = h("div.ex-answer", { role: "status" });
  readonly #fields = h("div");
  readonly #counted = h("p.ex-say");
  readonly #empty = h("div.ex-empty");
  readonly #body: HTMLElement;
  #seen: ReadonlyMap<string, InputData> = new Map();
  #changed = new Map<string, InputData>();
  #state: GlobalStateData | null = null;
  #shown: CompileData | undefined;
  readonly #disposers: Dispose[] = [];
  readonly #context: Context;

  constructor(into: HTMLElement, context: Context) {
    this.#context = context;
    this.#filters = {
      outcomes: context.setting<readonly string[]>("outcomes", []),
      owners: context.setting<readonly string[]>("owners", []),
      properties: context.setting<readonly string[]>("properties", []),
      words: new Signal(""),
    };
    this.#table = new DataTable<Decision>("Guards", [], context.selection, {
      keys: each => this.#keysOf(each.guard), look: each => `ex-guard-${each.outcome}`,
    });
    this.#outcomes = new Facets("Show only these outcomes", this.#filters.outcomes);
    this.#owners = new Facets("Show only guards about these", this.#filters.owners);
    this.#properties = new Facets("Show only guards of these kinds", this.#filters.properties);
    this.#words = h("input.ex-field", { type: "search", placeholder: "Guard, source or line", "aria-label": "Filter guards by words", oninput: () => (this.#filters.words.value = this.#words.value) });
    const all = button("ex-action", "Reset", () => this.#resetAll());
    this.#body = h(
      "div.ex-guards",
      h(
        "div.ex-main",
        part("Guards", [this.#words], this.#outcomes.element, this.#owners.element, this.#properties.element, this.#counted, this.#table.element),
      ),
      h("section.ex-picture.ex-describe", h("header", h("h2", "Try another call"), all), this.#answer, this.#fields),
    );
    into.append(this.#empty, h("div.ex-pad", this.#body));
    const filtered = () => this.#decideAll();
    this.#disposers.push(
      context.compile.watch(() => this.#render()), context.model.record.watch(() => this.#render()),
      this.#filters.outcomes.watch(filtered), this.#filters.owners.watch(filtered), this.#filters.properties.watch(filtered), this.#filters.words.watch(filtered),
    );
  }

  reveal(what: Key): boolean {
    const { id } = parts(what);
    if (this.#shown?.guards?.some(each => each.id === id)) this.#clearFilters();
    return this.#table.reveal(what);
  }

  exports(): readonly Export[] {
    const name = `${this.#shown?.id ?? ""}-guards`;
    return this.#body.hidden ? [] : [{ kind: "txt", name, make: async () => this.#table.text() }];
  }

  dispose(): void {
    this.#disposers.forEach(dispose => dispose());
    this.#table.dispose();
  }

  get #call(): Call {
    return { inputs: new Map([...this.#seen, ...this.#changed]), state: this.#state };
  }

  #keysOf(guard: GuardData): Key[] {
    const id = (of: string) => key(this.#context.compile.value, of);
    const cause = guard.cause && syntheticReason(guard.cause) === null ? [id(guard.cause)] : [];
    return [...cause, id(guard.id), ...(guard.span ? [id(`${guard.span.file}:${guard.span.line}`)].filter(each => isSourceLine(parts(each).id)) : [])];
  }

  #render(): void {
    const compile = this.#context.looked.value;
    const there = (compile?.guards ?? []).length > 0;
    this.#empty.hidden = there;
    this.#body.hidden = !there;
    if (!compile || !there) {
      this.#shown = undefined;
      fill(this.#empty, h("p", (compile?.id.startsWith("g") ? "A graph that was given has no guards: there is no frame whose inputs could change." : whyNone("guard", compile))));
      return;
    }
    if (compile !== this.#shown) {
      const again = this.#shown?.id === compile.id && this.#shown.guards?.length === compile.guards?.length;
      this.#shown = compile;
      this.#seen = seenBy(compile);
      if (!again) this.#resetAll();
    }
    this.#decideAll();
  }

  #resetAll(): void {
    this.#changed = new Map();
    this.#state = this.#shown?.guards?.find(each => each.state)?.state ?? null;
    this.#showForm();
    this.#decideAll();
  }

  #showForm(): void {
    const inputs = [...this.#seen.values()].sort((a, b) => interest(a) - interest(b));
    const open = inputs.filter(each => interest(each) < 2).length;
    fill(this.#fields, form(inputs, open, this.#state, source => this.#changed.has(source), {
      input: input => {
        this.#changed.set(input.source, input);
        this.#decideAll();
      },
      state: state => {
        this.#state = state;
        this.#decideAll();
      },
      reset: source => {
        this.#changed.delete(source);
        this.#decideAll();
      },
    }));
  }

  #decideAll(): void {
    const compile = this.#shown;
    if (!compile) return;
    const call = this.#call;
    const all = decide(compile.guards ?? [], call);
    fill(this.#answer, ...this.#told(outlook(this.#context.model.record.value, compile, call), compile));
    this.#showTable(all);
  }

  #showTable(all: readonly Decision[]): void {
    const { outcomes, owners, properties, words } = this.#filters;
    const passes = (chosen: readonly string[], id: string) => chosen.length === 0 || chosen.includes(id);
    const asked = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const place = ({ guard }: Decision) => (guard.of_torch ? 2 : guard.source.startsWith("L[") ? 0 : 1);
    const said = ({ guard, how }: Decision) => `${guard.words ?? ""} ${guard.expression} ${guard.why} ${this.#place(guard)} ${guard.cause ?? ""} ${how.join(" ")}`.toLowerCase();
    const rows = all
      .filter(each => passes(outcomes.value, each.outcome) && passes(properties.value, each.guard.property) && passes(owners.value, owner(each.guard)))
      .filter(each => asked.every(word => said(each).includes(word)))
      .sort((a, b) => Number(b.outcome === "fails") - Number(a.outcome === "fails") || place(a) - place(b));
    this.#outcomes.show(facetsOf(all, each => each.outcome, each => MARKS[each.outcome]));
    this.#owners.show(all.some(each => each.guard.of_torch) ? facetsOf(all, each => owner(each.guard), each => owner(each.guard)) : []);
    this.#properties.show(facetsOf(all, each => each.guard.property, each => each.guard.property.replace("_", " ")));
    this.#counted.textContent = rows.length === all.length ? "" : `${rows.length} of ${count(all.length, "guard")} shown`;
    this.#counted.hidden = rows.length === all.length;
    this.#table.show(rows, this.#columns());
  }

  #clearFilters(): void {
    this.#filters.outcomes.value = [];
    this.#filters.owners.value = [];
    this.#filters.properties.value = [];
    this.#words.value = this.#filters.words.value = "";
  }

  #columns(): Column<Decision>[] {
    const costs = new Map(this.#context.looked.value?.guard_costs?.map(each => [each.source, each.seconds]));
    const cost = ({ guard }: Decision) => (costs.has(guard.source) ? seconds(costs.get(guard.source) ?? 0) : "");
    return [
      {
        name: "This call", text: each => MARKS[each.outcome], order: each => ORDER[each.outcome],
        cell: each => h("span", { class: LOOKS[each.outcome], title: each.outcome === "undecided" ? "Cannot be evaluated from the values given; it held when the graph was captured" : undefined }, MARKS[each.outcome]),
      },
      {
        name: "Guard", order: each => each.guard.expression,
        text: ({ guard, how }) => phrase([guard.words, guard.expression, ...how, seenBeside(guard), guard.why], "; "),
        cell: ({ guard, outcome, how }) => h(
          "div.ex-expression", ...(guard.words ? [h("div", guard.words)] : []), h("code", guard.expression),
          ...(outcome === "holds" ? [] : how.map(each => h("div", { class: outcome === "fails" ? "ex-how ex-fails" : "ex-how" }, each))),
          ...[seenBeside(guard), guard.why].filter(Boolean).map(each => h("div.ex-how", each)),
        ),
      },
      { name: "Kind", text: each => each.guard.property.replace("_", " "), order: each => each.guard.property },
      ...(costs.size ? [{ name: "Cost", numeric: true, title: "What a call saves without the checks of its source, measured", text: cost, order: (each: Decision) => costs.get(each.guard.source) ?? null }] : []),
      {
        name: "From", text: each => phrase([this.#place(each.guard), each.guard.cause], " "), order: each => each.guard.span?.line ?? null,
        cell: ({ guard }) => h("div.ex-from", this.#place(guard) ? h("code", this.#place(guard)) : null, this.#cause(guard)),
      },
    ];
  }

  #cause(guard: GuardData): HTMLElement | null {
    if (!guard.cause) return null;
    const reason = syntheticReason(guard.cause);
    if (reason !== null) return h("span.ex-count", reason);
    const compile = this.#shown;
    const instruction = compile?.codes?.flatMap(each => each.instructions).find(each => each.id === guard.cause);
    const open = () => this.#context.show("bytecode", key(this.#context.compile.value, guard.cause ?? ""));
    return button("ex-reason", instruction ? `${instruction.op} ${instruction.arg}`.trim() : guard.cause, open, { title: guard.cause });
  }

  #told({ candidates, accepts, dynamic, refused }: Outlook, compile: CompileData): HTMLElement[] {
    const failing = (of: readonly Decision[]) => of.filter(each => each.outcome === "fails").length;
    const open = (of: readonly Decision[]) => of.filter(each => each.outcome === "undecided").length;
    const own = candidates.find(each => each.compile === compile);
    const undecided = accepts ? open(candidates.find(each => each.compile === accepts)?.decisions ?? []) : 0;
    const headline = accepts
      ? (accepts === compile ? `The code of ${compile.id} would run` : `No recompile: ${accepts.id}, another compile of this frame, accepts it`)
      : refused ? "It would run eagerly" : "It would be recompiled";
    const said: string[] = [];
    const always = this.#context.model.record.value.config["dynamic"] === "True";
    if (accepts) {
      if (undecided > 0) said.push(`${count(undecided, "guard")} of ${accepts.id} cannot be evaluated from the values given; ${undecided === 1 ? "it" : "they"} held when it was made.`);
    } else if (refused) {
      said.push(`${refused[0]?.toUpperCase()}${refused.slice(1)}.`);
    } else if (dynamic.length > 0) {
      said.push(`The new code would take ${dynamic.join(", ")} as ${dynamic.length === 1 ? "a symbol" : "symbols"}: ${always ? "dynamic=True asks for it" : "what was seen to change is not fixed again"}.`);
    } else {
      said.push("No size becomes dynamic: the values that differ are constants in each compile.");
    }
    if (own && own.compile !== accepts) said.push(`${count(failing(own.decisions), "guard")} of ${compile.id} would fail; all are listed below.`);
    const others = candidates.length > 1
      ? [h("ul.ex-list", ...candidates.map(each => h(
          "li", button("ex-link", each.compile.id, () => (this.#context.compile.value = each.compile.id)),
          `: ${failing(each.decisions) ? `${count(failing(each.decisions), "guard")} would fail` : "none would fail"}${open(each.decisions) ? `, ${open(each.decisions)} not decided here` : ""}`,
        )))]
      : [];
    return [h("p", { class: accepts ? "ex-yes" : "ex-no" }, h("strong", headline)), ...said.map(each => h("p", each)), ...others];
  }

  #place({ span }: GuardData): string {
    return span ? this.#context.model.files.value.place(span.file, span.line) : "";
  }
}

function owner(guard: GuardData): string {
  return guard.of_torch ? "torch itself" : "the program";
}

/** What the value was at capture, where the guard itself does not say it. */
function seenBeside(guard: GuardData): string {
  return guard.seen && !guard.expression.includes(guard.seen) ? `seen: ${guard.seen}` : "";
}

/** What a person changes first comes first: arguments, then tensors that are no parameters, then plain values. */
function interest(input: InputData): number {
  const parameter = (input.tensor?.type ?? "").endsWith("Parameter");
  if ((input.role ?? "argument") === "argument" && !parameter) return 0;
  if (input.tensor && !parameter) return 1;
  if (input.constant) return 2;
  return parameter ? 4 : 3;
}
