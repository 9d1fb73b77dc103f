// What panes are called, in the order in which they are offered. JupyterLab's commands name them too, before there is a
// viewer.

export const TITLES = {
  source: "Source",
  bytecode: "Bytecode",
  breaks: "Breaks",
  guards: "Guards",
  recompiles: "Recompiles",
  graphs: "Graphs",
  schedule: "Schedule",
  memory: "Memory",
  code: "Code",
  timing: "Timing",
  values: "Values",
  timeline: "Timeline",
  text: "Stage text",
  diff: "Diff",
} as const;
