// Marks of a drawing or rows of a table as one tab stop: arrow keys walk them.

type Mark = HTMLElement | SVGElement;

export class Roving {
  #order: Mark[] = [];

  add(mark: Mark): void {
    mark.setAttribute("tabindex", this.#order.length === 0 ? "0" : "-1");
    this.#order.push(mark);
  }

  clear(): void {
    this.#order = [];
  }

  /** Tab comes back to the mark that had the focus last. */
  focused(mark: Mark): void {
    for (const each of this.#order) if (each.tabIndex === 0 && each !== mark) each.setAttribute("tabindex", "-1");
    mark.setAttribute("tabindex", "0");
  }

  /** Moves the focus from a mark where the key asks for it; whether it did. */
  key(event: KeyboardEvent, from: Mark): boolean {
    const at = this.#order.indexOf(from);
    const to = {
      ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0, End: this.#order.length - 1,
    }[event.key];
    const next = at < 0 || to === undefined ? undefined : this.#order[to];
    next?.focus();
    return next !== undefined;
  }
}
