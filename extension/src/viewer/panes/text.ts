// The selected stage's artifact as text, or as what it changed in the one before.

import { reasonLink } from "../catalogue";
import { fill, h, on } from "../dom";
import { key } from "../element";
import { fileName, phrase } from "../format";
import { lineDiff, unified } from "../diff/lines";
import type { Context, Pane } from "../pane";
import type { CompileData, RewriteData, StageData } from "../record";
import { rowsOf, type TextRow, TextView } from "../textview";
import { watchAny } from "../signal";
import { artifact, halfName, stageBefore } from "../stages";
import { found, Walk } from "../walk";

export function text(into: HTMLElement, context: Context): Pane {
  const changes = context.setting<boolean>("changes", false);
  const heading = h("span");
  const box = h("input", { type: "checkbox" });
  const toggle = h("label", box, "what the pass changed");
  const body = h("div.ex-body-text");
  const nothing = h("p.ex-hint");
  const card = h("div.ex-step", { role: "status" });
  const pane = h("div.ex-pane");
  const view = TextView(body, context);
  const rewrites = () => context.looked.value?.rewrites ?? [];
  let rows: readonly TextRow[] = [];
  const walk = Walk(pane, context.setting<string>("breakpoint", ""), {
    name: "Rewrite", example: "pass:casts",
    moves: { r: ["replaced:", "replaced"], d: ["dropped:", "dropped"], l: ["lowered:", "lowered"] },
    find: query => find(context.looked.value!, query),
    go: to => {
      const [stage, , gone] = rewrites()[to]!;
      changes.value = true;
      context.stage.value = stage;
      walk.at = to;
      context.selection.pinned.value = key(context.compile.value, gone);
      describe();
    },
  });
  pane.append(h("div.ex-bar", heading, toggle, walk.element), nothing, body, card);
  into.append(pane);
  const describe = () => {
    const [stage, pattern, gone = "", was, by, now, whys = []] = rewrites()[walk.at] ?? [];
    const here = stage === context.stage.value;
    card.hidden = !here;
    view.setCurrent(here ? rows.findIndex(row => row.stands?.[0] === key(context.compile.value, gone)) : -1);
    const code = (sign: string, id: string | undefined, text: string | undefined) =>
      id && h("div", h("code", `${sign} ${phrase([id, text], " = ")}`));
    fill(card,
      h("strong", pattern), ...[code("−", gone, was), code("+", by, now)].filter(each => each instanceof Node),
      ...whys.map(each => reasonLink(each, context)),
    );
  };
  const render = () => {
    const compile = context.looked.value;
    const stage = compile?.stages?.find(each => each.id === context.stage.value);
    const made = compile && stage ? artifact(compile, stage) : undefined;
    const before = compile && made ? stageBefore(compile, made) : undefined;
    heading.textContent = compile && stage ? changeText(compile, stage, made) : "";
    toggle.hidden = !before?.body;
    box.checked = changes.value;
    rows = compile && made ? rowsOf(made.body, compile, context.model) : [];
    nothing.textContent = rows.length > 0 ? "" : why(stage);
    nothing.hidden = rows.length > 0;
    body.hidden = rows.length === 0;
    if (changes.value && compile && before)
      rows = unified(rowsOf(before.body, compile, context.model), rows, false, lineDiff).rows;
    view.show({ rows, language: made?.body?.language ?? "text", label: `Text of stage ${stage?.name ?? ""}` });
    walk.show(rewrites().length - 1);
    if (rewrites()[walk.at]?.[0] !== context.stage.value)
      walk.at = Math.max(-1, rewrites().findIndex(each => each[0] === context.stage.value) - 1);
    describe();
  };
  on(box, "change", () => (changes.value = box.checked));
  const end = watchAny(render, context.stage, context.looked, changes);
  return {
    walk,
    reveal: what => view.reveal(what),
    exports: () => [{ kind: "txt", name: fileName(`stage ${context.stage.value}`), make: async () => view.text }],
    dispose: () => {
      end();
      walk.end();
      view.dispose();
    },
  };
}

/** Where all terms of a query hold. */
function find(compile: CompileData, query: string): number[] | string {
  const passes =
    new Map(compile.stages?.map(({ id, name, half = "" }) => [id, phrase([name, halfName(compile, half)], " ")]));
  const came = (fits: (was: unknown,
    by: unknown) => unknown) => ([, pattern, , was, by]: RewriteData) => fits(was, by) ? pattern : "";
  return found(query, {
    pattern: row => row[1], pass: row => passes.get(row[0]), node: row => [row[2], ...(row[4] ?? "").split(", ")],
    replaced: came((was, by) => was && by), dropped: came((was, by) => was && !by), lowered: came(was => !was),
    because: row => row[6]?.map(each => each.title), step: (_, at) => at,
  }, compile.rewrites ?? []);
}

function changeText(compile: CompileData, stage: StageData, made: StageData | undefined): string {
  const name = `${compile.id}: ${stage.name}`;
  return made && made !== stage ? `${name} changed nothing: this is the text of ${made.name}` : name;
}

function why(stage: StageData | undefined): string {
  if (!stage) return "No stage is selected, or none has ended yet.";
  if (stage.error) return `The stage failed and made nothing: ${stage.error}`;
  return "This stage has no text in the record.";
}
