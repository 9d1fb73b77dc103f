// All panes, in the order in which they are offered.

import type { PaneKind } from "../pane";
import { breaks } from "./breaks";
import { bytecode } from "./bytecode";
import { code } from "./code";
import { diff } from "./diff";
import { graphs } from "./graphs/pane";
import { guards } from "./guards";
import { memory } from "./memory";
import { recompiles } from "./recompiles";
import { schedule } from "./schedule";
import { source } from "./source";
import { text } from "./text";
import { timeline } from "./timeline";
import { timing } from "./timing";
import { TITLES } from "./titles";
import { values } from "./values";

const OPENED: { readonly [id in keyof typeof TITLES]: PaneKind["open"] } = {
  source, bytecode, breaks, guards, recompiles, graphs, schedule, memory, code, timing, values, timeline, text, diff,
};

export const PANES: readonly PaneKind[] =
  Object.entries(OPENED).map(([id, open]) => ({ id, title: TITLES[id as keyof typeof TITLES], open }));
