// Graphs: as captured, as traced, after each pass, and the halves; drawn, as a table, and as text.

import type { PaneKind } from "../../pane";
import { GraphsPane } from "./pane";
import { TITLES } from "../titles";

export const graphs: PaneKind = {
  id: "graphs",
  title: TITLES.graphs,
  about: {
    text:
      "The program as a graph of operations, top to bottom: as it was captured from bytecode, traced to ATen operations with its backward, "
      + "after each pass, and cut into a forward and a backward half. Boxes are nodes, or groups of them by module or by the kernel that they "
      + "ended in; a double click opens and closes a group. Signs mark what a pass added (+), removed (−) and changed (~), and what is saved (●) "
      + "for the backward or recomputed there (↻). Nothing moves from pass to pass, so that what changes can be seen.",
    paper: "The FX graph of TorchDynamo (section 3), AOTAutograd's joint graph and its partition (section 3.9).",
    stock: "torch.fx.Graph; torch/_functorch/aot_autograd.py, partitioners.py; TORCH_LOGS=\"graph_code,aot_joint_graph,aot_graphs\".",
  },
  open: (into, context) => new GraphsPane(into, context),
};
