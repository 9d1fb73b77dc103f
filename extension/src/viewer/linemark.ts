// Marks the line that is stepped through in the cell of the notebook that holds it.

import { StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView } from "@codemirror/view";

/** To where a line begins; -1 for none. */
const moved = StateEffect.define<number>();

const marks = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(old, { docChanged, effects }) {
    const at = effects.find(each => each.is(moved))?.value as number | undefined;
    if (at === undefined) return docChanged ? Decoration.none : old;
    return at < 0 ? Decoration.none : Decoration.set(Decoration.line({ class: "ex-stepped" }).range(at));
  },
  provide: field => EditorView.decorations.from(field),
});

/** Marks a line of the cell that was the `cell`th to run ("[3]:"), if it still reads so, and no other. */
export function markLine(notebook: ParentNode, cell: string, line: number, text: string): void {
  for (const area of notebook.querySelectorAll(".jp-InputArea")) {
    const editor = EditorView.findFromDOM(area as HTMLElement);
    if (!editor) continue;
    const { doc } = editor.state;
    const here = area.querySelector(".jp-InputPrompt")?.textContent === cell && line > 0 && line <= doc.lines
      && doc.line(line).text === text;
    if (!here && !editor.state.field(marks, false)) continue;
    if (!editor.state.field(marks, false)) editor.dispatch({ effects: StateEffect.appendConfig.of(marks) });
    editor.dispatch({ effects: moved.of(here ? doc.line(line).from : -1) });
  }
}
