// The elements of a drawing that is near: made for what is in view at once, for what is near it while there is time.

import { fill, svg } from "../../dom";
import { type Rectangle, within } from "./camera";
import type { Lit } from "./canvas";
import { type Line, type Mark, overlap, type Scene, type Tie } from "./scene";
import { boxElement, frameElement, lineElement, tieElement } from "./svg";

/** How long elements are made in one frame for what is not in view yet, in milliseconds; and how many are kept. */
const SLICE = 5;
const MOST_KEPT = 2500;

export class Layers {
  readonly #groups = { frames: svg("g"), lines: svg("g"), lit: svg("g"), boxes: svg("g"), ties: svg("g") };
  readonly #world = svg("g", ...Object.values(this.#groups));
  readonly element = svg("svg.ex-g-svg", this.#world);
  readonly #elements = new Map<Mark | Line, SVGElement>();
  #covered: Rectangle | null = null;
  readonly #name: string;

  /** `name` begins the ids of its elements. */
  constructor(name: string) {
    this.#name = name;
  }

  clear(): void {
    for (const group of Object.values(this.#groups)) fill(group);
    this.#elements.clear();
    this.#covered = null;
  }

  of(mark: Mark): SVGElement | undefined {
    return this.#elements.get(mark);
  }

  /** Moves what is seen into view. */
  look(seen: Rectangle, scale: number): void {
    this.#world.setAttribute("transform", `scale(${scale}) translate(${-seen.x} ${-seen.y})`);
  }

  /** Makes what is missing; "later" where some of it was put off to the next frame, "nothing" where all was there. */
  cover(scene: Scene, seen: Rectangle): "done" | "later" | "nothing" {
    const wide: Rectangle = { x: seen.x - seen.width / 2, y: seen.y - seen.height / 2, width: 2 * seen.width, height: 2 * seen.height };
    if (this.#covered && within(seen, this.#covered) && seen.width * 3 > this.#covered.width) return "nothing";
    if (this.#elements.size > MOST_KEPT) this.#drop(wide);
    const started = performance.now();
    let done = true;
    const make = (what: Mark | Line, bounds: Rectangle, into: SVGElement, element: () => SVGElement): boolean => {
      if (this.#elements.has(what) || !overlap(bounds, wide)) return false;
      if (performance.now() - started > SLICE && !overlap(bounds, seen)) return (done = false);
      const made = element();
      into.append(made);
      this.#elements.set(what, made);
      return true;
    };
    let frames = false;
    scene.marks.forEach((mark, n) => {
      const id = `${this.#name}-${n}`;
      if (mark.open) frames = make(mark, mark, this.#groups.frames, () => frameElement(mark, id)) || frames;
      else make(mark, mark, this.#groups.boxes, () => boxElement(mark, id));
    });
    for (const line of scene.lines) make(line, line.bounds, this.#groups.lines, () => lineElement(line));
    // Outer frames lie below inner ones.
    if (frames) this.#groups.frames.append(...scene.marks.flatMap(mark => (mark.open ? (this.#elements.get(mark) ?? []) : [])));
    if (done) this.#covered = wide;
    return done ? "done" : "later";
  }

  /** Gives elements the look of what is lit, and takes it from what was. */
  dress(before: Lit | null, { hot, current, lines }: Lit, ties: readonly Tie[]): void {
    for (const mark of before?.hot ?? []) if (!hot.has(mark)) this.#elements.get(mark)?.classList.remove("ex-hot");
    for (const mark of hot) this.#elements.get(mark)?.classList.add("ex-hot");
    if (before?.current && before.current !== current) this.#elements.get(before.current)?.classList.remove("ex-current");
    if (current) this.#elements.get(current)?.classList.add("ex-current");
    fill(this.#groups.lit, ...[...lines].filter(line => this.#elements.has(line)).map(line => {
      const element = lineElement(line, true);
      element.classList.add("ex-hot");
      return element;
    }));
    fill(this.#groups.ties, ...ties.map(tieElement));
  }

  #drop(wide: Rectangle): void {
    for (const [what, element] of this.#elements) {
      if (overlap("bounds" in what ? what.bounds : what, wide)) continue;
      element.remove();
      this.#elements.delete(what);
    }
  }
}

const MARGIN = 20;

/** All of a scene, without anything lit. */
export function wholeDrawing(scene: Scene): SVGSVGElement {
  const [width, height] = [scene.width + 2 * MARGIN, scene.height + 2 * MARGIN];
  return svg(
    "svg.ex-g-svg.ex-g-export", { width, height, viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}` },
    svg("g", ...scene.marks.filter(mark => mark.open).map(mark => frameElement(mark, ""))),
    svg("g", ...scene.lines.map(line => lineElement(line))),
    svg("g", ...scene.marks.filter(mark => !mark.open).map(mark => boxElement(mark, ""))),
  );
}
