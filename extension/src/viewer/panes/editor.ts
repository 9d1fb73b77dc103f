// The editor of the source pane: a function's text and the compiler's settings, compiled again as they are changed.

import { button, fill, h, on } from "../dom";
import { menuButton } from "../menu";
import type { Context } from "../pane";
import { onChange } from "../signal";

export function editor(context: Context): { readonly element: HTMLElement; readonly dispose: () => void } {
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
