// All panes, in the order in which they are offered.

import type { PaneKind } from "../pane";
import { breaks } from "./breaks";
import { bytecode } from "./bytecode";
import { code } from "./code";
import { diff } from "./diff";
import { graphs } from "./graphs";
import { source } from "./source";
import { text } from "./text";

export const PANES: readonly PaneKind[] = [
  source,
  bytecode,
  breaks,
  graphs,
  code,
  text,
  diff,
];
