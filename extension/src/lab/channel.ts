// What a kernel says to the pages that show a record. The first stages are said before a page has laid itself out, so
// one who comes late hears first what was said since the record was last whole.

import type { ToPage } from "../viewer/protocol";
import type { Dispose } from "../viewer/signal";

export class Channel {
  readonly #listeners = new Set<(message: ToPage) => void>();
  #said: ToPage[] = [];

  listen(listener: (message: ToPage) => void): Dispose {
    this.#said.forEach(listener);
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  hear(message: ToPage): void {
    if (message.type === "record" || message.type === "done") this.#said = [];
    else if (message.type !== "kept" && message.type !== "made") this.#said.push(message);
    this.#listeners.forEach(listener => listener(message));
  }
}
