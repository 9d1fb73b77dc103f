// What a kernel says to the pages that show a record. The first stages are said before a page has laid itself out, so
// one who comes late hears first what was said since the record was last whole.

import type { ToPage } from "../viewer/protocol";
import type { Dispose } from "../viewer/signal";

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

export type Channel = ReturnType<typeof Channel>;
