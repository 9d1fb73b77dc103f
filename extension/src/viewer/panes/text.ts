// The selected stage's artifact as text.

import { h } from "../dom";
import type { Context, Pane, PaneKind } from "../pane";
import { artifact } from "../stages";

export const text: PaneKind = {
  id: "text",
  title: "Stage text",
  about: {
    text: "What the selected stage made, in full, as text. Walk the stages with the arrow keys to see it change.",
    paper: "",
    stock: "TORCH_LOGS=... prints such texts one at a time",
  },
  open(into: HTMLElement, context: Context): Pane {
    const body = h("pre", { class: "ex-text", tabindex: 0 });
    into.append(body);
    const read = () => {
      const compile = context.model.compile(context.compile.value);
      const stage = compile?.stages?.find(each => each.id === context.stage.value);
      if (!compile || !stage) return "";
      return (artifact(compile, stage).body?.lines ?? []).map(([line]) => line).join("\n");
    };
    const render = () => (body.textContent = read());
    const disposers = [context.stage.watch(render), context.model.record.watch(render)];
    return {
      reveal: () => false,
      exports: () => [{ kind: "txt", name: context.stage.value.replace(/\W+/g, "_"), make: async () => read() }],
      dispose: () => disposers.forEach(dispose => dispose()),
    };
  },
};
