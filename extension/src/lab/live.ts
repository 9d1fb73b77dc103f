// The way to the kernels behind live records, by the id of the widget model that a record's output names. An output may
// be rendered before its model is there (after a reload of the page, say), so that both sides meet here.

import type { Live } from "../viewer/host";
import { type Dispose, type Readable, Signal } from "../viewer/signal";
import type { ToPage } from "../viewer/protocol";

function Lives() {
  const byModel = new Map<string, Signal<Live | null>>();
  const of = (model: string): Readable<Live | null> => signalOf(model);

  function connect(model: string, live: Live): Dispose {
    const signal = signalOf(model);
    signal.value = live;
    return () => {
      if (signal.value === live) signal.value = null;
    };
  }

  function signalOf(model: string): Signal<Live | null> {
    const found = byModel.get(model);
    if (found) return found;
    const made = new Signal<Live | null>(null);
    byModel.set(model, made);
    return made;
  }

  return { of, connect };
}

/** One for the page: the widget manager makes models without asking any plugin. */
export const lives = Lives();

export function Channel() {
  const listeners = new Set<(message: ToPage) => void>();
  let sent: ToPage[] = [];

  function listen(listener: (message: ToPage) => void): Dispose {
    sent.forEach(listener);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  function hear(message: ToPage): void {
    if (message.type === "record" || message.type === "done") sent = [];
    else if (message.type !== "kept" && message.type !== "made") sent.push(message);
    listeners.forEach(listener => listener(message));
  }

  return { listen, hear };
}
