// Making elements, and what their events need. Text goes in as text, never as markup.

type Child = Node | string | null | undefined;
type Attributes = { readonly [name: string]: string | number | boolean | EventListener | undefined };

/** An HTML element: attributes by name, `onclick` and such as listeners, true and false for presence. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: readonly Child[]
): SVGElementTagNameMap[K] {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled<E extends Element>(element: E, attributes: Attributes, children: readonly Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  for (const child of children) if (child !== null && child !== undefined) element.append(child);
  return element;
}

/** A button that does something; `text` is its name. */
export function button(look: string, text: string, run: () => void, more: Attributes = {}): HTMLButtonElement {
  return h("button", { type: "button", class: look, onclick: run, ...more }, text);
}

/** A small button with a sign on it, and its name as a title and for screen readers. */
export function tool(sign: string, name: string, run: () => void, title = name): HTMLButtonElement {
  return button("ex-button", sign, run, { title, "aria-label": name });
}

/** What happened was meant for one alone: nothing else acts on it. */
export function taken(event: Event): void {
  event.preventDefault();
  event.stopPropagation();
}
