// All panes, in the order in which they are offered.

import type { PaneKind } from "../pane";
import { source } from "./source";
import { text } from "./text";

export const PANES: readonly PaneKind[] = [
  source,
  text,
];
