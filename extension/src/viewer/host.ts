// What a viewer needs from the page that it is in. The adapters of src/lab and src/report make one.

import type { ToKernel, ToPage } from "./protocol";
import { type Dispose, onChange, type Readable, Signal } from "./signal";

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

export interface Host {
  /** What was kept for this notebook (or file) under `name`; undefined where nothing was. */
  recall(name: string): Json | undefined;
  remember(name: string, value: Json): void;
  readonly dark: Readable<boolean>;
  /** Gives the user a file. */
  download(name: string, mime: string, contents: string | Blob): void;
  /** The kernel behind a record that is live; null where there is none (yet). */
  readonly live: Readable<Live | null>;
  /** The address at which this record opens as `address` says (Shell.address). */
  link(address: string): string;
  /** Marks a line of a file where it is edited, if it reads so there, and no other; absent where nothing is edited. */
  mark?(file: string, line: number, text: string): void;
  /** Puts a text into a new cell below the record's; absent where there is no notebook. */
  insert?(text: string): void;
  /** The viewer's page, as built or with a record in it: it holds texts (textsOf). */
  page(): Promise<string>;
  /** One HTML file with this record and the viewer; absent where this host cannot make it. */
  report?(): Promise<string>;
}

export interface Live {
  listen(listener: (message: ToPage) => void): Dispose;
  send(message: ToKernel): void;
  /** Interrupts what the kernel does: it hears no message while it runs a cell. */
  interrupt(): void;
}

/** Takes what is said by whatever kernel there is, until what is given back is called; `other` is told first where that
 * is another one. */
export function hears(live: Readable<Live | null>, take: (message: ToPage) => void, other: () => void): Dispose {
  let leave: Dispose = () => undefined;
  const end = live.watch(now => {
    leave();
    other();
    leave = now?.listen(take) ?? (() => undefined);
  });
  return () => {
    end();
    leave();
  };
}

/** A setting with what was kept of it, where that can stand for it, and what ends the keeping. */
export function remembered<T extends Json>(host: Host, name: string, initial: T): readonly [Signal<T>, Dispose] {
  const kept = host.recall(name);
  const signal = new Signal<T>(kept !== undefined && sameKind(kept, initial) ? (kept as T) : initial);
  return [signal, onChange(signal, value => host.remember(name, value))];
}

/** An older version may have kept something else there. */
function sameKind(kept: Json, initial: Json): boolean {
  if (kept === null || initial === null) return initial === null || kept === initial;
  return typeof kept === typeof initial && Array.isArray(kept) === Array.isArray(initial);
}
