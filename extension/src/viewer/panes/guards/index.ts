// What must hold for the compiled code to be used, and which calls would break it.

import { DataTable, type TableColumn } from "../../datatable";
import { button, fill, h } from "../../dom";
import { isSourceLine, key, parts, syntheticReason, type Key } from "../../element";
import { Facets, facetsOf } from "../../choices";
import { count, phrase, seconds } from "../../format";
import { whyNone } from "../../stages";
import type { Context, Export, Pane } from "../../pane";
import { part } from "../../picture";
import type { CompileData, GlobalStateData, GuardData, InputData } from "../../record";
import { ends, onChange, Signal, watchAny } from "../../signal";
import type { Call, Decision, Outcome } from "./check";
import { seenBy } from "./described";
import { form } from "./form";
import { outlook, type Outlook } from "./outlook";

const MARKS: { readonly [outcome in Outcome]: string } =
  { holds: "✓ holds", fails: "✕ fails", undecided: "? true at capture" };
const LOOKS: { readonly [outcome in Outcome]: string } = { holds: "ex-yes", fails: "ex-no", undecided: "ex-unsure" };
const ORDER: { readonly [outcome in Outcome]: number } = { fails: 0, undecided: 1, holds: 2 };

export function guards(into: HTMLElement, context: Context): Pane {
  const answer = h("div.ex-answer", { role: "status" });
  const fields = h("div");
  const counted = h("p.ex-say");
  const empty = h("div.ex-empty");
  let seen: ReadonlyMap<string, InputData> = new Map();
  let changed = new Map<string, InputData>();
  let ownState: GlobalStateData | null = null;
  let shown: CompileData | undefined;
  const described = (): Call => ({ inputs: new Map([...seen, ...changed]), state: ownState });
  const placeOf = ({ span }: GuardData): string => span ? context.model.files.value.place(span.file, span.line) : "";
  const filters = {
    outcomes: context.setting<readonly string[]>("outcomes", []),
    owners: context.setting<readonly string[]>("owners", []),
    properties: context.setting<readonly string[]>("properties", []),
    words: new Signal(""),
  };
  const table = DataTable<Decision>("Guards", [], context.selection, {
    keys: each => keysOf(each.guard), look: each => `ex-guard-${each.outcome}`,
  });
  const outcomeFacets = Facets("Show only these outcomes", filters.outcomes);
  const ownerFacets = Facets("Show only guards about these", filters.owners);
  const propertyFacets = Facets("Show only guards of these kinds", filters.properties);
  const words = h("input.ex-field", { type: "search", placeholder: "Guard, source or line",
    "aria-label": "Filter guards by words", oninput: () => (filters.words.value = words.value) });
  const all = button("ex-action", "Reset", () => resetAll());
  const body = h(
    "div.ex-guards",
    h(
      "div.ex-main",
      part("Guards", [words], outcomeFacets.element, ownerFacets.element, propertyFacets.element, counted,
        table.element),
    ),
    h("section.ex-picture.ex-describe", h("header", h("h2", "Try another call"), all), answer, fields),
  );
  into.append(empty, h("div.ex-pad", body));
  const dispose = ends(
    watchAny(render, context.compile, context.model.record),
    ...[filters.outcomes, filters.owners, filters.properties, filters.words].map(
      each => onChange<unknown>(each, decideAll)),
    table,
  );

  function reveal(what: Key): boolean {
    const { id } = parts(what);
    if (shown?.guards?.some(each => each.id === id)) clearFilters();
    return table.reveal(what);
  }

  function exports(): readonly Export[] {
    const name = `${shown?.id ?? ""}-guards`;
    return body.hidden ? [] : [{ kind: "txt", name, make: async () => table.text() }];
  }

  function keysOf(guard: GuardData): Key[] {
    const id = (of: string) => key(context.compile.value, of);
    const cause = guard.cause && syntheticReason(guard.cause) === null ? [id(guard.cause)] : [];
    return [...cause, id(guard.id),
      ...(guard.span
        ? [id(`${guard.span.file}:${guard.span.line}`)].filter(each => isSourceLine(parts(each).id)) : [])];
  }

  function render(): void {
    const compile = context.looked.value;
    const there = (compile?.guards ?? []).length > 0;
    empty.hidden = there;
    body.hidden = !there;
    if (!compile || !there) {
      shown = undefined;
      fill(empty,
        h("p",
          (compile?.id.startsWith("g") ? "This graph was passed in, not captured from a frame, so it has no guards."
            : whyNone("guard", compile))));
      return;
    }
    if (compile !== shown) {
      const again = shown?.id === compile.id && shown.guards?.length === compile.guards?.length;
      shown = compile;
      seen = seenBy(compile);
      if (!again) return resetAll();
    }
    decideAll();
  }

  function resetAll(): void {
    changed = new Map();
    ownState = shown?.guards?.find(each => each.state)?.state ?? null;
    showForm();
    decideAll();
  }

  function showForm(): void {
    const inputs = [...seen.values()].sort((a, b) => interest(a) - interest(b));
    const open = inputs.filter(each => interest(each) < 2).length;
    fill(fields, form(inputs, open, ownState, source => changed.has(source), {
      input: input => {
        changed.set(input.source, input);
        decideAll();
      },
      state: state => {
        ownState = state;
        decideAll();
      },
      reset: source => {
        changed.delete(source);
        decideAll();
      },
    }));
  }

  function decideAll(): void {
    const compile = shown;
    if (!compile) return;
    const call = described();
    const found = outlook(context.model.record.value, compile, call);
    fill(answer, ...describe(found, compile));
    showTable(found.candidates.find(each => each.compile === compile)!.decisions);
  }

  function showTable(all: readonly Decision[]): void {
    const { outcomes, owners, properties, words } = filters;
    const passes = (chosen: readonly string[], id: string) => chosen.length === 0 || chosen.includes(id);
    const asked = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const place = ({ guard }: Decision) => (guard.of_torch ? 2 : guard.source.startsWith("L[") ? 0 : 1);
    const guardText = ({ guard, how }: Decision) =>
      [guard.words, guard.expression, guard.why, placeOf(guard), guard.cause, ...how].join(" ").toLowerCase();
    const rows = all
      .filter(each => passes(outcomes.value, each.outcome) && passes(properties.value, each.guard.property)
        && passes(owners.value, owner(each.guard)))
      .filter(each => asked.every(word => guardText(each).includes(word)))
      .sort((a, b) => Number(b.outcome === "fails") - Number(a.outcome === "fails") || place(a) - place(b));
    outcomeFacets.show(facetsOf(all, each => each.outcome, each => MARKS[each.outcome]));
    ownerFacets.show(all.some(each => each.guard.of_torch)
      ? facetsOf(all, each => owner(each.guard), each => owner(each.guard)) : []);
    propertyFacets.show(facetsOf(all, each => each.guard.property, each => each.guard.property.replace("_", " ")));
    counted.textContent = rows.length === all.length ? "" : `${rows.length} of ${count(all.length, "guard")} shown`;
    counted.hidden = rows.length === all.length;
    table.show(rows, columns());
  }

  function clearFilters(): void {
    filters.outcomes.value = [];
    filters.owners.value = [];
    filters.properties.value = [];
    words.value = filters.words.value = "";
  }

  function columns(): TableColumn<Decision>[] {
    const costs = new Map(context.looked.value?.guard_costs?.map(each => [each.source, each.seconds]));
    const cost = ({ guard }: Decision) => (costs.has(guard.source) ? seconds(costs.get(guard.source) ?? 0) : "");
    return [
      {
        name: "This call", text: each => MARKS[each.outcome], order: each => ORDER[each.outcome],
        cell: each =>
          h(
            "span", { class: LOOKS[each.outcome],
              title: each.outcome === "undecided"
                ? "Cannot be evaluated from the values given; it was true when the graph was captured"
                : undefined }, MARKS[each.outcome]),
      },
      {
        name: "Guard", order: each => each.guard.expression,
        text: ({ guard, how }) => phrase([guard.words, guard.expression, ...how, observedText(guard), guard.why], "; "),
        cell: ({ guard, outcome, how }) => h(
          "div.ex-expression", ...(guard.words ? [h("div", guard.words)] : []), h("code", guard.expression),
          ...(outcome === "holds"
            ? [] : how.map(each => h("div", { class: outcome === "fails" ? "ex-how ex-fails" : "ex-how" }, each))),
          ...[observedText(guard), guard.why].filter(Boolean).map(each => h("div.ex-how", each)),
        ),
      },
      { name: "Kind", text: each => each.guard.property.replace("_", " "), order: each => each.guard.property },
      ...(costs.size
        ? [
          { name: "Cost", numeric: true, text: cost,
            order: (each: Decision) => costs.get(each.guard.source) ?? null }] : []),
      {
        name: "From", text: each => phrase([placeOf(each.guard), each.guard.cause], " "),
        order: each => each.guard.span?.line ?? null,
        cell: ({ guard }) => h("div.ex-from", placeOf(guard) ? h("code", placeOf(guard)) : null, cause(guard)),
      },
    ];
  }

  function cause(guard: GuardData): HTMLElement | null {
    if (!guard.cause) return null;
    const reason = syntheticReason(guard.cause);
    if (reason !== null) return h("span.ex-count", reason);
    const compile = shown;
    const instruction = compile?.codes?.flatMap(each => each.instructions).find(each => each.id === guard.cause);
    const open = () => context.show("bytecode", key(context.compile.value, guard.cause ?? ""));
    return button("ex-reason", instruction ? `${instruction.op} ${instruction.arg}`.trim() : guard.cause, open,
      { title: guard.cause });
  }

  function describe({ candidates, accepts, dynamic, refused }: Outlook, compile: CompileData): HTMLElement[] {
    const failing = (of: readonly Decision[]) => of.filter(each => each.outcome === "fails").length;
    const open = (of: readonly Decision[]) => of.filter(each => each.outcome === "undecided").length;
    const own = candidates.find(each => each.compile === compile);
    const undecided = accepts ? open(candidates.find(each => each.compile === accepts)?.decisions ?? []) : 0;
    const headline = accepts
      ? (accepts === compile ? `The code of ${compile.id} would run`
        : `No recompile: ${accepts.id}, another compile of this frame, accepts it`)
      : refused ? "It would run eagerly" : "It would be recompiled";
    const sentences: string[] = [];
    const always = context.model.record.value.config["dynamic"] === "True";
    if (accepts) {
      if (undecided > 0)
        sentences.push(`${count(undecided, "guard")} of ${accepts.id} cannot be evaluated from the values given; `
          + `${undecided === 1 ? "it" : "they"} held when it was made.`);
    } else if (refused) {
      sentences.push(`${refused[0]?.toUpperCase()}${refused.slice(1)}.`);
    } else if (dynamic.length > 0) {
      sentences.push(
        `Dynamic in the new code: ${dynamic.join(", ")} (${always ? "dynamic=True" : "sizes that changed once become "
          + "dynamic"}).`);
    } else {
      sentences.push("No size becomes dynamic: the values that differ are constants in each compile.");
    }
    if (own && own.compile !== accepts)
      sentences.push(`${count(failing(own.decisions), "guard")} of ${compile.id} would fail; all are listed below.`);
    const others = candidates.length > 1
      ? [h("ul.ex-list", ...candidates.map(each => h(
          "li", button("ex-link", each.compile.id, () => (context.compile.value = each.compile.id)),
          `: ${failing(each.decisions) ? `${count(failing(each.decisions), "guard")} would fail` : "none would "
            + "fail"}${open(each.decisions) ? `, ${open(each.decisions)} not decided here` : ""}`,
        )))]
      : [];
    return [h("p", { class: accepts ? "ex-yes" : "ex-no" }, h("strong", headline)),
      ...sentences.map(each => h("p", each)), ...others];
  }

  return { reveal, exports, dispose };
}

const owner = (guard: GuardData): string => (guard.of_torch ? "torch's state" : "the program's values");

/** What the value was at capture, where the guard itself does not say it. */
function observedText(guard: GuardData): string {
  return guard.seen && !guard.expression.includes(guard.seen) ? `at capture: ${guard.seen}` : "";
}

/** What a person changes first comes first: arguments, then tensors that are no parameters, then plain values. */
function interest(input: InputData): number {
  const parameter = (input.tensor?.type ?? "").endsWith("Parameter");
  if ((input.role ?? "argument") === "argument" && !parameter) return 0;
  if (input.tensor && !parameter) return 1;
  if (input.constant) return 2;
  return parameter ? 4 : 3;
}
