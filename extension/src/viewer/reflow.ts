// Where the panes go when the viewer gets wider or narrower.

import { type Layout, MIDDLE, opened, suggested, WIDE } from "./layout";

/** The layout for another width, with the same tabs in front as far as they can be; as it is where a person moved panes. */
export function reflowed(layout: Layout, kinds: readonly string[], width: number): Layout {
  const places = (of: Layout) => JSON.stringify(of.columns.map(column => column.cells.map(cell => cell.tabs)));
  const next = suggested(kinds, width);
  const own = [0, MIDDLE, WIDE].every(each => places(suggested(kinds, each)) !== places(layout));
  if (own || places(next) === places(layout)) return layout;
  return layout.columns.flatMap(column => column.cells).reduce((found, cell) => opened(found, cell.active), next);
}
