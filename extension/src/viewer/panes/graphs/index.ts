// Graphs: as captured, as traced, after each pass, and the halves; drawn, as a table, and as text.

import type { PaneKind } from "../../pane";
import { GraphsPane } from "./pane";
import { TITLES } from "../titles";

export const graphs: PaneKind = {
  id: "graphs",
  title: TITLES.graphs,
  open: (into, context) => GraphsPane(into, context),
};
