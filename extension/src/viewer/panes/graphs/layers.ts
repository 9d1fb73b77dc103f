// The elements of a drawing that is near: made for what is in view at once, for what is near it while there is time.

import { fill, svg } from "../../dom";
import { type Rectangle, within } from "./camera";
import type { Lit } from "./canvas";
import { type Line, type DrawnItem, overlap, type Scene, type Tie } from "./scene";
import { boxElement, frameElement, lineElement, tieElement } from "./svg";

/** How long elements are made in one frame for what is not in view yet, in milliseconds; and how many are kept. */
const SLICE = 5;
const MOST_KEPT = 2500;

/** `name` begins the ids of its elements. */
export function Layers(name: string) {
  // Frames are translucent: lines are seen below them, and do not cross out their names.
  const groups = { lines: svg("g"), lit: svg("g"), frames: svg("g"), boxes: svg("g"), ties: svg("g") };
  const world = svg("g", ...Object.values(groups));
  const element = svg("svg.ex-g-svg", world);
  const elements = new Map<DrawnItem | Line, SVGElement>();
  let covered: Rectangle | null = null;
  const of = (mark: DrawnItem): SVGElement | undefined => elements.get(mark);

  function clear(): void {
    for (const group of Object.values(groups)) fill(group);
    elements.clear();
    covered = null;
  }

  /** Moves what is seen into view. */
  function look(seen: Rectangle, scale: number): void {
    world.setAttribute("transform", `scale(${scale}) translate(${-seen.x} ${-seen.y})`);
  }

  /** Makes what is missing; "later" where some of it was put off to the next frame, "nothing" where all was there. */
  function cover(scene: Scene, seen: Rectangle): "done" | "later" | "nothing" {
    const wide: Rectangle =
      { x: seen.x - seen.width / 2, y: seen.y - seen.height / 2, width: 2 * seen.width, height: 2 * seen.height };
    if (covered && within(seen, covered) && seen.width * 3 > covered.width) return "nothing";
    if (elements.size > MOST_KEPT) drop(wide);
    const started = performance.now();
    let done = true;
    const make = (what: DrawnItem | Line, bounds: Rectangle, into: SVGElement, element: () => SVGElement): boolean => {
      if (elements.has(what) || !overlap(bounds, wide)) return false;
      if (performance.now() - started > SLICE && !overlap(bounds, seen)) return (done = false);
      const made = element();
      into.append(made);
      elements.set(what, made);
      return true;
    };
    let frames = false;
    scene.marks.forEach((mark, n) => {
      const id = `${name}-${n}`;
      if (mark.open) frames = make(mark, mark, groups.frames, () => frameElement(mark, id)) || frames;
      else make(mark, mark, groups.boxes, () => boxElement(mark, id));
    });
    for (const line of scene.lines) make(line, line.bounds, groups.lines, () => lineElement(line));
    // Outer frames lie below inner ones.
    if (frames) groups.frames.append(...scene.marks.flatMap(mark => (mark.open ? (elements.get(mark) ?? []) : [])));
    if (done) covered = wide;
    return done ? "done" : "later";
  }

  /** Gives elements the look of what is lit, and takes it from what was. */
  function dress(before: Lit | null, { hot, current, lines }: Lit, ties: readonly Tie[]): void {
    for (const mark of before?.hot ?? []) if (!hot.has(mark)) elements.get(mark)?.classList.remove("ex-hot");
    for (const mark of hot) elements.get(mark)?.classList.add("ex-hot");
    if (before?.current && before.current !== current) elements.get(before.current)?.classList.remove("ex-current");
    if (current) elements.get(current)?.classList.add("ex-current");
    fill(groups.lit, ...[...lines].filter(line => elements.has(line)).map(line => {
      const element = lineElement(line, true);
      element.classList.add("ex-hot");
      return element;
    }));
    fill(groups.ties, ...ties.map(tieElement));
  }

  function drop(wide: Rectangle): void {
    for (const [what, element] of elements) {
      if (overlap("bounds" in what ? what.bounds : what, wide)) continue;
      element.remove();
      elements.delete(what);
    }
  }

  return { element, clear, of, look, cover, dress };
}

export type Layers = ReturnType<typeof Layers>;

const MARGIN = 20;

/** All of a scene, without anything lit. */
export function wholeDrawing(scene: Scene): SVGSVGElement {
  const [width, height] = [scene.width + 2 * MARGIN, scene.height + 2 * MARGIN];
  return svg(
    "svg.ex-g-svg.ex-g-export", { width, height, viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}` },
    svg("g", ...scene.lines.map(line => lineElement(line))),
    svg("g", ...scene.marks.filter(mark => mark.open).map(mark => frameElement(mark, ""))),
    svg("g", ...scene.marks.filter(mark => !mark.open).map(mark => boxElement(mark, ""))),
  );
}
