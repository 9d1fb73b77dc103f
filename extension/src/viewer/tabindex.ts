// Marks of a drawing or rows of a table as one tab stop: arrow keys walk them.

export type Focusable = HTMLElement | SVGElement;

export function RovingTabindex() {
  let order: Focusable[] = [];
  const clear = () => (order = []);

  function add(mark: Focusable): void {
    mark.setAttribute("tabindex", order.length === 0 ? "0" : "-1");
    order.push(mark);
  }

  /** Tab comes back to the mark that had the focus last. */
  function focused(mark: Focusable): void {
    for (const each of order) if (each.tabIndex === 0 && each !== mark) each.setAttribute("tabindex", "-1");
    mark.setAttribute("tabindex", "0");
  }

  /** Moves the focus from a mark where the key asks for it; whether it did. */
  function key(event: KeyboardEvent, from: Focusable): boolean {
    const at = order.indexOf(from);
    const to = {
      ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0, End: order.length - 1,
    }[event.key];
    const next = at < 0 || to === undefined ? undefined : order[to];
    next?.focus();
    return next !== undefined;
  }

  return { add, clear, focused, key };
}

export type RovingTabindex = ReturnType<typeof RovingTabindex>;
