// Making elements, and what their events need. Text goes in as text, never as markup.

type Child = Node | string | null | undefined;
type Attributes = { readonly [name: string]: string | number | boolean | EventListener | undefined };
/** "div", or "div.ex-pane.ex-graphs" with classes. */
type TagAndClass<Map> = (keyof Map & string) | `${keyof Map & string}.${string}`;
type ElementOf<Map, Tag> = Tag extends keyof Map ? Map[Tag]
  : Tag extends `${infer Name extends keyof Map & string}.${string}` ? Map[Name] : never;

/** An HTML element. Attributes, where there are any, come first, by name: `onclick` and such as listeners, true and
 * false for presence. */
export function h<Tag extends TagAndClass<HTMLElementTagNameMap>>(
  tag: Tag, first?: Attributes | Child, ...children: readonly Child[]
): ElementOf<HTMLElementTagNameMap, Tag> {
  const [name = "", ...looks] = tag.split(".");
  return filled(document.createElement(name), looks, first,
    children) as Element as ElementOf<HTMLElementTagNameMap, Tag>;
}

/** The same for SVG. */
export function svg<Tag extends TagAndClass<SVGElementTagNameMap>>(
  tag: Tag, first?: Attributes | Child, ...children: readonly Child[]
): ElementOf<SVGElementTagNameMap, Tag> {
  const [name = "", ...looks] = tag.split(".");
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), looks, first,
    children) as Element as ElementOf<SVGElementTagNameMap, Tag>;
}

function filled(element: Element, looks: readonly string[], first: Attributes | Child,
    children: readonly Child[]): Element {
  if (looks.length) element.setAttribute("class", looks.join(" "));
  const isChild = typeof first === "string" || first instanceof Node;
  for (const [name, value] of Object.entries(isChild ? {} : (first ?? {}))) {
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
    else if (value === true) element.setAttribute(name, "");
    // Numbers of a record may be so large or small that a place worked out from them is none.
    else if (typeof value === "number" && !Number.isFinite(value)) element.setAttribute(name, "0");
    else if (value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  for (const child of isChild ? [first, ...children] : children) if (child !== null && child !== undefined)
    element.append(child);
  return element;
}

/** The element whose data attribute has this value. A selector does not find every name that a record may hold. */
export function named(inside: ParentNode, attribute: string, value: string): HTMLElement | undefined {
  return [...inside.querySelectorAll<HTMLElement>(`[${attribute}]`)].find(
    each => each.getAttribute(attribute) === value);
}

/** A button that does something; `text` is its name. */
export function button(look: string, text: string, run: () => void, more: Attributes = {}): HTMLButtonElement {
  return h("button", { type: "button", class: look, onclick: run, ...more }, text);
}

/** A small button with a sign on it, and its name as a title and for screen readers. */
export function tool(sign: string, name: string, run: () => void, title = name): HTMLButtonElement {
  return button("ex-button", sign, run, { title, "aria-label": name });
}

/** Puts these into an element, in place of what it held. */
export function fill(element: Element, ...children: readonly (Node | string)[]): void {
  element.replaceChildren(...children);
}

/** Listens, until what is given back is called. */
export function on<Type extends keyof HTMLElementEventMap>(
  of: EventTarget, type: Type, listener: (event: HTMLElementEventMap[Type]) => unknown,
  options?: AddEventListenerOptions,
): () => void {
  of.addEventListener(type, listener as EventListener, options);
  return () => of.removeEventListener(type, listener as EventListener);
}

/** Gives an element one of its ARIA attributes. */
export function aria(element: Element, name: string, value: string | boolean | number): void {
  element.setAttribute(`aria-${name}`, String(value));
}

/** What happened was meant for one alone: nothing else acts on it. */
export function taken(event: Event): void {
  event.preventDefault();
  event.stopPropagation();
}

/** Options of a select that are listed: each costs time whenever it is laid out, as it is as wide as the widest. */
export const MOST_OPTIONS = 500;

/** Chooses an option of a select; one that is not listed is added. */
export function choose(select: HTMLSelectElement, value: string, label: string): void {
  select.value = value;
  if (select.value === value) return;
  select.append(h("option", { value }, label));
  select.value = value;
}

const sheets = new Set<string>();

/** Gives the page a style sheet, once. */
export function styled(css: string): void {
  if (sheets.has(css)) return;
  sheets.add(css);
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  document.adoptedStyleSheets.push(sheet);
}

/** Marks the option of a listbox that is the chosen one, and scrolls the list, and nothing else, so that it is seen. */
export function markOption(list: HTMLElement, chosen: (option: HTMLElement) => boolean): void {
  const options = [...list.querySelectorAll<HTMLElement>("[role=option]")];
  for (const option of options) aria(option, "selected", chosen(option));
  const item = options.find(chosen);
  if (!item) return;
  aria(list, "activedescendant", item.id);
  const [outer, inner] = [list.getBoundingClientRect(), item.getBoundingClientRect()];
  if (inner.top < outer.top) list.scrollTop -= outer.top - inner.top;
  else if (inner.bottom > outer.bottom) list.scrollTop += inner.bottom - outer.bottom;
  if (inner.left < outer.left) list.scrollLeft -= outer.left - inner.left;
  else if (inner.right > outer.right) list.scrollLeft += inner.right - outer.right;
}
