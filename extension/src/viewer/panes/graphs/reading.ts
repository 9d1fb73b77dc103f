// What was worked out of a compile: its graphs, and by family what is known of their nodes. Kept while a record grows
// and says nothing new of them.

import { entry } from "../../collections";
import type { CompileData } from "../../record";
import { type Grouping, type Item, verticesOf } from "./groups";
import { Kernels } from "./kernels";
import { Subject } from "./subject";
import { type GraphView, viewAt, viewsOf } from "./views";

export class Reading {
  readonly #kernels: Kernels;
  readonly #subjects: Map<string, Subject>;

  private constructor(readonly compile: CompileData, readonly views: readonly GraphView[], kernels: Kernels,
      subjects: Map<string, Subject>) {
    this.#kernels = kernels;
    this.#subjects = subjects;
  }

  static of(compile: CompileData, before: Reading | null): Reading {
    if (before?.compile === compile) return before;
    const views = viewsOf(compile);
    if (before && before.#holdsFor(compile, views))
      return new Reading(compile, before.views, before.#kernels, before.#subjects);
    return new Reading(compile, views, Kernels(compile), new Map());
  }

  view(id: string): GraphView | undefined {
    return this.views.find(each => each.id === id);
  }

  get eager(): GraphView | undefined {
    return this.views.find(each => each.kind === "eager");
  }

  /** The view of a stage, or the one nearest to it. */
  viewOf(stage: string): GraphView | undefined {
    const found = this.compile.stages?.find(each => each.id === stage);
    const half = found?.half?.endsWith("backward") ? "backward" : found?.half?.endsWith("forward") ? "forward" : null;
    const cut = found?.graph || found?.same_as ? undefined : this.views.find(each => each.kind === half);
    return cut ?? viewAt(this.views, this.compile, stage) ?? this.views[0];
  }

  subject(view: GraphView): Subject {
    return entry(this.#subjects, view.family, () => {
      const captured = this.views.filter(each => each.kind === "captured").flatMap(each => each.graph.nodes);
      const modules = new Map(captured.map(node => [node.id, node.module ?? ""]));
      return new Subject(this.compile, this.views.filter(each => each.family === view.family), this.#kernels,
        id => modules.get(id) ?? "");
    });
  }

  /** The subject of a view, where it was asked for before: it takes a while to make for a large graph. */
  known(view: GraphView): Subject | undefined {
    return this.#subjects.get(view.family);
  }

  /** What stands for an id in a view; undefined where nothing does. */
  find(view: GraphView, by: Grouping, id: string): Item | undefined {
    const kernel = by === "kernel" && this.#kernels.homes.some(home => home.id === id);
    if (!kernel && !view.graph.nodes.some(node => node.id === id)) return undefined;
    const item = this.subject(view).find(by, id);
    const { nodes } = this.subject(view).state(view);
    return item && verticesOf(item).some(vertex => nodes.has(vertex)) ? item : undefined;
  }

  /** Whether a compile that grew has the same graphs, and nothing new about them. */
  #holdsFor(compile: CompileData, views: readonly GraphView[]): boolean {
    const { compile: old, views: known } = this;
    const same = (one: GraphView, other: GraphView) =>
      one.id === other.id
        && (one.kind === "eager" ? old.eager_backward === compile.eager_backward : one.graph === other.graph);
    return old.id === compile.id && old.halves === compile.halves && old.saved === compile.saved
      && known.length === views.length
      && known.every((view, n) => same(view, views[n]!));
  }
}
