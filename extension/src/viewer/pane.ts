// What a pane is. Panes know the model, the selection and the place they look at, and nothing of each other.

import type { Edits } from "./edits";
import type { Key } from "./element";
import type { Host, Json } from "./host";
import type { Model } from "./model";
import type { Selection } from "./selection";
import type { Abilities } from "./protocol";
import type { CompileData, HalfData } from "./record";
import type { Readable, Signal } from "./signal";
import type { Walk } from "./walk";

export interface PaneKind {
  /** Also the name that `%%explore --stage` takes. */
  readonly id: string;
  readonly title: string;
  open(into: HTMLElement, context: Context): Pane;
}

export interface Context {
  readonly model: Model;
  readonly selection: Selection;
  readonly host: Host;
  /** The id of the compile that all panes look at. */
  readonly compile: Signal<string>;
  readonly looked: Readable<CompileData | undefined>;
  /** The id of the stage that all panes look at, in that compile. */
  readonly stage: Signal<string>;
  /** The step of capture that the compile is looked at as of; -1 for none. */
  readonly step: Signal<number>;
  /** The query whose hits are the breakpoints in the capture's steps. */
  readonly breakpoint: Signal<string>;
  /** What the live kernel can do; null where there is none, or it has not said yet. */
  readonly abilities: Readable<Abilities | null>;
  readonly edits: Edits;
  /** A setting of this pane that is remembered with the notebook. */
  setting<T extends Json>(name: string, initial: T): Signal<T>;
  /** Opens the pane `id` (if need be) and has it show `what`, which is pinned. */
  show(id: string, what: Key | null): void;
  save(what: Export): void;
  /** Opens the catalogue's page of a reason. */
  reason(code: string): void;
}

export interface Pane {
  /** What it goes through step by step, and which half of a compile it looks at. */
  readonly walk?: Walk;
  readonly choice?: { readonly looked: Readable<{ readonly half: HalfData } | null>;
  showWith(has: (half: HalfData) => boolean): void };
  /** Brings an element into view where this pane shows it; false where it does not. */
  reveal(what: Key): boolean;
  /** What can be saved of it: file name without suffix, and how it is made. */
  exports(): readonly Export[];
  dispose(): void;
}

export interface Export {
  readonly kind: "svg" | "png" | "txt" | "py" | "json";
  readonly name: string;
  make(): Promise<string | Blob>;
}
