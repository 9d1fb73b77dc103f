// The selected stage's artifact as text, or as what it changed in the one before.

import { h } from "../dom";
import { DIFFERS, lineDiff } from "../linediff";
import type { Context, Pane, PaneKind } from "../pane";
import type { CompileData, StageData } from "../record";
import { rowsOf } from "../rows";
import { artifact, stageBefore } from "../stages";
import { type Row, TextView } from "../textview";
import { fileName } from "../filename";
import { TITLES } from "./titles";

export const text: PaneKind = {
  id: "text",
  title: TITLES.text,
  about: {
    text:
      "What the selected stage made, in full, as text. Each line has the colour of the source line that caused it; a line with a "
      + "double edge has several. Walk the stages with the arrow keys to see the program change; a pass over a graph can be shown "
      + "as what it changed in the graph before.",
    paper: "Each stage of TorchDynamo, AOTAutograd and TorchInductor has such an intermediate program.",
    stock: "TORCH_LOGS=\"graph_code,aot_graphs,schedule,output_code\" prints some of these, one kind at a time.",
  },
  open(into: HTMLElement, context: Context): Pane {
    const changes = context.setting<boolean>("changes", false);
    const heading = h("span");
    const box = h("input", { type: "checkbox" });
    const toggle = h("label", box, "what the pass changed");
    const body = h("div.ex-body-text");
    const nothing = h("p.ex-hint");
    into.append(h("div.ex-pane", h("div.ex-bar", heading, toggle), nothing, body));
    const view = new TextView(body, context);
    const render = () => {
      const compile = context.looked.value;
      const stage = compile?.stages?.find(each => each.id === context.stage.value);
      const made = compile && stage ? artifact(compile, stage) : undefined;
      const before = compile && made ? stageBefore(compile, made) : undefined;
      heading.textContent = compile && stage ? said(compile, stage, made) : "";
      toggle.hidden = !before?.body;
      box.checked = changes.value;
      const rows = compile && made ? rowsOf(made.body, compile, context.model) : [];
      const shown = changes.value && compile && before ? changed(rowsOf(before.body, compile, context.model), rows) : rows;
      nothing.textContent = rows.length > 0 ? "" : why(stage);
      nothing.hidden = rows.length > 0;
      body.hidden = rows.length === 0;
      view.show({ rows: shown, language: made?.body?.language ?? "text", label: `Text of stage ${stage?.name ?? ""}` });
    };
    box.addEventListener("change", () => (changes.value = box.checked));
    const disposers = [context.stage.watch(render), context.looked.watch(render), changes.watch(render)];
    return {
      reveal: what => view.reveal(what),
      exports: () => [{ kind: "txt", name: fileName(`stage ${context.stage.value}`), make: async () => view.text }],
      dispose: () => {
        disposers.forEach(dispose => dispose());
        view.dispose();
      },
    };
  },
};

function said(compile: CompileData, stage: StageData, made: StageData | undefined): string {
  const name = `${compile.id}: ${stage.name}`;
  return made && made !== stage ? `${name} left it as ${made.name} made it` : name;
}

function why(stage: StageData | undefined): string {
  if (!stage) return "No stage is selected, or none has ended yet.";
  if (stage.error) return `The stage failed and made nothing: ${stage.error}`;
  return "This stage has no text in the record.";
}

function changed(before: readonly Row[], after: readonly Row[]): Row[] {
  return lineDiff(before.map(row => row.text), after.map(row => row.text)).flatMap(({ kind, from, to }): Row[] => {
    if (kind === "same") return to.map(n => after[n] as Row);
    const gone = from.map(n => ({ ...(before[n] as Row), style: "removed" as const, number: DIFFERS.removed }));
    const fresh = to.map(n => ({ ...(after[n] as Row), style: "added" as const, number: DIFFERS.added }));
    return [...gone, ...fresh];
  });
}
