// The keys that the viewer knows.

import { h } from "./dom";

const KEYS: readonly (readonly [keys: string, what: string])[] = [
  ["?", "this page"],
  ["/", "search all panes; arrows choose, Enter opens"],
  ["s", "go to the list of stages"],
  ["↑ ↓", "walk the stages, in any pane's place: Alt+↑ and Alt+↓"],
  ["F6, Shift+F6", "next, previous pane"],
  ["← → on a tab", "other panes in the same place"],
  ["Shift+arrows on a tab", "move the pane"],
  ["Delete on a tab", "close the pane"],
  ["arrows on a border", "resize"],
  ["[ and ] in the bytecode", "step the evaluator back and forward"],
  ["b in the source", "a breakpoint on the line, as a click on its number"],
  ["Enter or click in a pane", "pin the chain of causes and effects of what is there; once more lets go"],
  ["Escape", "let go of what is pinned"],
];

export function helpPage(): HTMLElement {
  const rows = KEYS.map(([keys, what]) => h("tr", h("td", h("kbd", keys)), h("td", what)));
  const head = h("tr", h("th", "Keys"), h("th", "What they do"));
  return h("table.ex-table", h("thead", head), h("tbody", ...rows));
}
