// The drawing that one can move about in: SVG where it is near, a canvas where it is far or much, and the keyboard.

import { aria, h, on, taken, tool } from "../../dom";
import type { Key } from "../../element";
import { sum } from "../../collections";
import { ends } from "../../signal";
import { beginning, between, type Camera, type Extent, clamped, moved, type Rectangle, showing, whole, zoomed } from
  "./camera";
import { Colors, type Lit, paintCanvas, Minimap } from "./canvas";
import { gestures, next, type Way } from "./gestures";
import type { Item } from "./groups";
import { Layers, wholeDrawing } from "./svg";
import { type Line, type DrawnItem, markAt, overlap, type Scene } from "./scene";

export interface Hooks {
  hovered(mark: DrawnItem | null, x: number, y: number): void;
  chosen(mark: DrawnItem | null): void;
  /** The keyboard came to a mark, or left (null). */
  walked(mark: DrawnItem | null): void;
  /** A group is to be opened or closed. */
  toggled(mark: DrawnItem): void;
  /** The group around a mark is to be closed. */
  left(mark: DrawnItem): void;
}

/** Smaller than this, or with more boxes in view, the canvas draws. */
const NEAR = 0.42;
const MOST_ELEMENTS = 320;
const ZOOM = 1.25;
const STEP = 60;
const GLIDE = 180;
const EMPTY: Scene = { parts: [], marks: [], lines: [], ties: [], width: 0, height: 0, byKey: new Map() };

/** `name` begins the ids of its elements. */
export function Drawing(name: string, hooks: Hooks) {
  const canvas = h("canvas.ex-g-canvas", { "aria-hidden": "true" });
  const announced = h("div.ex-hidden", { "aria-live": "polite" });
  const scale = h("span.ex-g-scale");
  let shownScene = EMPTY;
  let eye: Camera = { x: 0, y: 0, scale: 1 };
  let extent: Extent = { width: 0, height: 0 };
  let fresh = true;
  let lit: Lit = { hot: new Set(), current: null, lines: new Set() };
  let hotMarks: ReadonlySet<DrawnItem> = new Set();
  let pointed: DrawnItem | null = null;
  let atHand: DrawnItem | null = null;
  let frameAsked = 0;
  let gliding = 0;
  const fit = () => glide(whole(shownScene, extent));
  const zoomBy = (factor: number) => look(zoomed(eye, extent.width / 2, extent.height / 2, factor));
  const under = (x: number, y: number): DrawnItem | null =>
    markAt(shownScene, eye.x + x / eye.scale, eye.y + y / eye.scale);
  const hover = (x: number, y: number) => point(under(x, y), x, y);
  const layers = Layers(name);
  const minimap = Minimap((x, y) => {
    const { width, height } = seenNow();
    moveTo({ ...eye, x: x - width / 2, y: y - height / 2 });
  });
  const controls = h(
    "div.ex-g-zoom", tool("−", "Smaller (−)", () => zoomBy(1 / ZOOM)), scale,
    tool("+", "Larger (+)", () => zoomBy(ZOOM)), tool("⤢", "Fit all of it (0)", () => fit()),
  );
  const element = h(
    "div.ex-g-view", {
      tabindex: 0, role: "application", "aria-roledescription": "graph",
      "aria-label": "Graph. Arrow keys walk along edges, Enter opens and closes groups, Backspace closes the group "
        + "around, plus and minus zoom, 0 fits, Shift and arrows move.",
    },
    canvas, layers.element, minimap.element, controls, announced,
  );
  const colors = Colors(element);
  const observer = new ResizeObserver(resized);
  observer.observe(element);
  on(element, "keydown", key);
  on(element, "blur", () => hooks.walked(null));
  const dispose = ends(
    () => observer.disconnect(),
    gestures(element, {
      move: (dx, dy) => move(dx, dy),
      zoom: (x, y, factor) => look(zoomed(eye, x, y, factor)),
      hover: (x, y) => hover(x, y),
      leave: () => point(null, 0, 0),
      click: (x, y) => click(x, y),
      doubleClick: (x, y) => doubleClick(x, y),
    }),
    () => cancelAnimationFrame(frameAsked), () => cancelAnimationFrame(gliding),
  );

  /** Shows another scene. `keep` stays where it is in view; without it and without `same`, the view begins anew. */
  function show(scene: Scene, same: boolean, keep?: Item): void {
    const before = keep && shownScene.marks.find(mark => mark.item === keep);
    const after = keep && scene.marks.find(mark => mark.item === keep);
    const current = atHand?.item;
    shownScene = scene;
    atHand = scene.marks.find(mark => mark.item === current) ?? null;
    pointed = null;
    hotMarks = new Set();
    layers.clear();
    if (before && after) eye = { ...eye, x: eye.x + after.x - before.x, y: eye.y + after.y - before.y };
    else if (!same) fresh = true;
    begin();
    minimap.show(scene, colors);
    relight();
    draw();
  }

  /** Lights up what belongs to a chain. */
  function light(chain: ReadonlySet<Key>): void {
    const hot = new Set<DrawnItem>();
    for (const key of chain) for (const mark of shownScene.byKey.get(key) ?? []) hot.add(mark);
    hotMarks = hot;
    relight();
  }

  /** Marks one box as the one that is at hand; null for none. */
  function setCurrent(mark: DrawnItem | null): void {
    atHand = mark;
    announced.textContent = mark?.spoken ?? "";
    relight();
    nameAtHand();
  }

  /** Tells assistive technology which element is at hand, where there is one. */
  function nameAtHand(): void {
    const id = atHand && layers.of(atHand)?.id;
    if (id) aria(element, "activedescendant", id);
    else element.removeAttribute("aria-activedescendant");
  }

  function reveal(mark: DrawnItem): void {
    begin();
    glide(showing(eye, mark, extent));
  }

  /** Moves to the first of some boxes, where none of them is in view. */
  function bringNear(marks: readonly DrawnItem[]): void {
    const [first] = marks;
    const seen = seenNow();
    if (first && !marks.some(mark => overlap(mark, seen))) reveal(first);
  }

  /** The colors of the page have changed. */
  function recolored(): void {
    colors.forget();
    minimap.show(shownScene, colors);
    draw();
  }

  /** All of the drawing as one SVG, attached to the page so that its styles can be read; the caller removes it. */
  function complete(): SVGSVGElement {
    const made = wholeDrawing(shownScene);
    element.append(made);
    return made;
  }

  function begin(): void {
    if (!fresh || !extent.width || !extent.height || !shownScene.marks.length) return;
    fresh = false;
    eye = beginning(shownScene, extent, shownScene.marks);
  }

  function resized(): void {
    const { clientWidth: width, clientHeight: height } = element;
    if (!width || !height) return;
    extent = { width, height };
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    begin();
    draw();
  }

  function move(dx: number, dy: number): boolean {
    const before = eye;
    look(moved(eye, dx, dy));
    return eye.x !== before.x || eye.y !== before.y;
  }

  function look(camera: Camera): void {
    cancelAnimationFrame(gliding);
    moveTo(camera);
  }

  function moveTo(camera: Camera): void {
    eye = clamped(camera, shownScene, extent);
    draw();
  }

  function glide(to: Camera): void {
    const from = eye;
    cancelAnimationFrame(gliding);
    if (from === to) return;
    if (window.matchMedia("(prefers-reduced-motion: reduce)").matches) return moveTo(to);
    const started = performance.now();
    const step = () => {
      const part = Math.min((performance.now() - started) / GLIDE, 1);
      moveTo(between(from, to, part * (2 - part)));
      if (part < 1) gliding = requestAnimationFrame(step);
    };
    gliding = requestAnimationFrame(step);
  }

  function draw(): void {
    if (!frameAsked) frameAsked = requestAnimationFrame(() => paint());
  }

  function paint(): void {
    frameAsked = 0;
    const [camera, scene, seen] = [eye, shownScene, seenNow()];
    if (!extent.width) return;
    scale.textContent = `${Math.round(camera.scale * 100)} %`;
    minimap.seen(seen);
    const far = camera.scale < NEAR || sum(scene.marks, mark => Number(overlap(mark, seen))) > MOST_ELEMENTS;
    canvas.hidden = !far;
    layers.element.style.display = far ? "none" : "";
    if (far) return paintCanvas(canvas, scene, camera, lit, colors);
    layers.look(seen, camera.scale);
    const made = layers.cover(scene, seen);
    if (made === "later") draw();
    if (made === "nothing") return;
    dress(null);
    nameAtHand();
  }

  /** What is in view. */
  function seenNow(): Rectangle {
    const [camera, view] = [eye, extent];
    return { x: camera.x, y: camera.y, width: view.width / camera.scale, height: view.height / camera.scale };
  }

  function relight(): void {
    const lines = new Set<Line>();
    const near = pointed ?? atHand;
    for (const line of shownScene.lines) {
      const own = near !== null && (line.from === near || line.to.includes(near));
      if (own || (hotMarks.has(line.from) && line.to.some(mark => hotMarks.has(mark)))) lines.add(line);
    }
    const before = lit;
    lit = { hot: hotMarks, current: atHand, lines };
    dress(before);
    if (!canvas.hidden) draw();
  }

  function dress(before: Lit | null): void {
    const near = pointed ?? atHand;
    const { hot } = lit;
    const ties =
      shownScene.ties.filter(tie => tie.from === near || tie.to === near || (hot.has(tie.from) && hot.has(tie.to)));
    layers.dress(before, lit, ties);
  }

  function point(mark: DrawnItem | null, x: number, y: number): void {
    if (mark === pointed) return;
    pointed = mark;
    element.classList.toggle("ex-g-pointed", mark !== null);
    hooks.hovered(mark, x, y);
    relight();
  }

  function click(x: number, y: number): void {
    const mark = under(x, y);
    if (mark && mark.item.kind !== "leaf" && (eye.x + x / eye.scale) - mark.x < 22 && eye.scale > NEAR)
      return hooks.toggled(mark);
    setCurrent(mark);
    hooks.chosen(mark);
  }

  function doubleClick(x: number, y: number): void {
    const mark = under(x, y);
    if (mark && mark.item.kind !== "leaf") hooks.toggled(mark);
  }

  function key(event: KeyboardEvent): void {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target !== element) return;
    const current = atHand;
    const arrow = WAYS[event.key];
    point(null, 0, 0);
    if (arrow && (event.shiftKey || !shownScene.marks.length)) move(-STEP * arrow.dx, -STEP * arrow.dy);
    else if (arrow) walk(arrow.way);
    else if (event.key === "+" || event.key === "=") zoomBy(ZOOM);
    else if (event.key === "-") zoomBy(1 / ZOOM);
    else if (event.key === "0") fit();
    else if (event.key === "Enter" && current)
      current.item.kind === "leaf" ? hooks.chosen(current) : hooks.toggled(current);
    else if (event.key === " " && current) hooks.chosen(current);
    else if (event.key === "Backspace" && current) hooks.left(current);
    else if (event.key === "Escape" && current) release();
    else return;
    taken(event);
  }

  function walk(way: Way): void {
    const mark = next(shownScene, atHand, way, seenNow());
    if (!mark) return;
    setCurrent(mark);
    reveal(mark);
    hooks.walked(mark);
  }

  function release(): void {
    setCurrent(null);
    hooks.chosen(null);
  }

  return {
    element, dispose, show, light, setCurrent, reveal, bringNear, fit, recolored, complete,
    get at() { return atHand; },
  };
}

const WAYS: { readonly [key: string]: { readonly way: Way; readonly dx: number; readonly dy: number } } = {
  ArrowUp: { way: "up", dx: 0, dy: -1 }, ArrowDown: { way: "down", dx: 0, dy: 1 },
  ArrowLeft: { way: "left", dx: -1, dy: 0 }, ArrowRight: { way: "right", dx: 1, dy: 0 },
};
