// All panes, in the order in which they are offered.

import type { PaneKind } from "../pane";
import { text } from "./text";

export const PANES: readonly PaneKind[] = [
  text,
];
