// The drawing that one can move about in: SVG where it is near, a canvas where it is far or much, and the keyboard.

import { aria, h, on, taken, tool } from "../../dom";
import type { Key } from "../../element";
import { sum } from "../../gather";
import type { Dispose } from "../../signal";
import { beginning, between, type Camera, type Extent, held, moved, type Rectangle, showing, whole, zoomed } from "./camera";
import { Colours, type Lit, paintCanvas } from "./canvas";
import { gestures } from "./gestures";
import type { Item } from "./groups";
import { Layers, wholeDrawing } from "./layers";
import { Minimap } from "./minimap";
import { type Line, type Mark, markAt, overlap, type Scene } from "./scene";
import { next, type Way } from "./walk";

export interface Hooks {
  hovered(mark: Mark | null, x: number, y: number): void;
  chosen(mark: Mark | null): void;
  /** The keyboard came to a mark, or left (null). */
  walked(mark: Mark | null): void;
  /** A group is to be opened or closed. */
  toggled(mark: Mark): void;
  /** The group around a mark is to be closed. */
  left(mark: Mark): void;
}

/** Smaller than this, or with more boxes in view, the canvas draws. */
const NEAR = 0.42;
const MOST_ELEMENTS = 320;
const ZOOM = 1.25;
const STEP = 60;
const GLIDE = 180;
const EMPTY: Scene = { parts: [], marks: [], lines: [], ties: [], width: 0, height: 0, byKey: new Map() };

export class Drawing {
  readonly element: HTMLElement;
  readonly #canvas = h("canvas.ex-g-canvas", { "aria-hidden": "true" });
  readonly #layers: Layers;
  readonly #said = h("div.ex-hidden", { "aria-live": "polite" });
  readonly #scale = h("span.ex-g-scale");
  readonly #minimap: Minimap;
  readonly #colours: Colours;
  readonly #disposers: Dispose[] = [];
  #scene = EMPTY;
  #camera: Camera = { x: 0, y: 0, scale: 1 };
  #view: Extent = { width: 0, height: 0 };
  #fresh = true;
  #lit: Lit = { hot: new Set(), current: null, lines: new Set() };
  #hot: ReadonlySet<Mark> = new Set();
  #pointed: Mark | null = null;
  #current: Mark | null = null;
  #frameAsked = 0;
  #gliding = 0;
  readonly #hooks: Hooks;

  /** `name` begins the ids of its elements. */
  constructor(name: string, hooks: Hooks) {
    this.#hooks = hooks;
    this.#layers = Layers(name);
    this.#minimap = Minimap((x, y) => {
      const { width, height } = this.#seen;
      this.#to({ ...this.#camera, x: x - width / 2, y: y - height / 2 });
    });
    const controls = h(
      "div.ex-g-zoom", tool("−", "Smaller (−)", () => this.#zoomBy(1 / ZOOM)), this.#scale,
      tool("+", "Larger (+)", () => this.#zoomBy(ZOOM)), tool("⤢", "Fit all of it (0)", () => this.fit()),
    );
    this.element = h(
      "div.ex-g-view", {
        tabindex: 0, role: "application", "aria-roledescription": "graph",
        "aria-label": "Graph. Arrow keys walk along edges, Enter opens and closes groups, Backspace closes the group around, plus and minus zoom, 0 fits, Shift and arrows move.",
      },
      this.#canvas, this.#layers.element, this.#minimap.element, controls, this.#said,
    );
    this.#colours = new Colours(this.element);
    const observer = new ResizeObserver(() => this.#resized());
    observer.observe(this.element);
    const key = (event: KeyboardEvent) => this.#key(event);
    on(this.element, "keydown", key);
    on(this.element, "blur", () => this.#hooks.walked(null));
    this.#disposers.push(
      () => observer.disconnect(),
      gestures(this.element, {
        move: (dx, dy) => this.#move(dx, dy),
        zoom: (x, y, factor) => this.#look(zoomed(this.#camera, x, y, factor)),
        hover: (x, y) => this.#hover(x, y),
        leave: () => this.#point(null, 0, 0),
        click: (x, y) => this.#click(x, y),
        doubleClick: (x, y) => this.#doubleClick(x, y),
      }),
      () => cancelAnimationFrame(this.#frameAsked), () => cancelAnimationFrame(this.#gliding),
    );
  }

  dispose(): void {
    this.#disposers.forEach(dispose => dispose());
  }

  /** Shows another scene. `keep` stays where it is in view; without it and without `same`, the view begins anew. */
  show(scene: Scene, same: boolean, keep?: Item): void {
    const before = keep && this.#scene.marks.find(mark => mark.item === keep);
    const after = keep && scene.marks.find(mark => mark.item === keep);
    const current = this.#current?.item;
    this.#scene = scene;
    this.#current = scene.marks.find(mark => mark.item === current) ?? null;
    this.#pointed = null;
    this.#hot = new Set();
    this.#layers.clear();
    if (before && after) this.#camera = { ...this.#camera, x: this.#camera.x + after.x - before.x, y: this.#camera.y + after.y - before.y };
    else if (!same) this.#fresh = true;
    this.#begin();
    this.#minimap.show(scene, this.#colours);
    this.#relight();
    this.#draw();
  }

  /** Lights up what belongs to a chain. */
  light(chain: ReadonlySet<Key>): void {
    const hot = new Set<Mark>();
    for (const key of chain) for (const mark of this.#scene.byKey.get(key) ?? []) hot.add(mark);
    this.#hot = hot;
    this.#relight();
  }

  /** Marks one box as the one that is at hand; null for none. */
  setCurrent(mark: Mark | null): void {
    this.#current = mark;
    this.#said.textContent = mark?.spoken ?? "";
    this.#relight();
    this.#name();
  }

  /** Tells assistive technology which element is at hand, where there is one. */
  #name(): void {
    const id = this.#current && this.#layers.of(this.#current)?.id;
    if (id) aria(this.element, "activedescendant", id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  get at(): Mark | null {
    return this.#current;
  }

  reveal(mark: Mark): void {
    this.#begin();
    this.#glide(showing(this.#camera, mark, this.#view));
  }

  /** Moves to the first of some boxes, where none of them is in view. */
  bringNear(marks: readonly Mark[]): void {
    const [first] = marks;
    const seen = this.#seen;
    if (first && !marks.some(mark => overlap(mark, seen))) this.reveal(first);
  }

  fit(): void {
    this.#glide(whole(this.#scene, this.#view));
  }

  /** The colours of the page have changed. */
  recoloured(): void {
    this.#colours.forget();
    this.#minimap.show(this.#scene, this.#colours);
    this.#draw();
  }

  /** All of the drawing as one SVG, attached to the page so that its styles can be read; the caller removes it. */
  complete(): SVGSVGElement {
    const made = wholeDrawing(this.#scene);
    this.element.append(made);
    return made;
  }

  #begin(): void {
    if (!this.#fresh || !this.#view.width || !this.#view.height || !this.#scene.marks.length) return;
    this.#fresh = false;
    this.#camera = beginning(this.#scene, this.#view, this.#scene.marks);
  }

  #resized(): void {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!width || !height) return;
    this.#view = { width, height };
    const ratio = window.devicePixelRatio || 1;
    this.#canvas.width = Math.round(width * ratio);
    this.#canvas.height = Math.round(height * ratio);
    this.#begin();
    this.#draw();
  }

  #move(dx: number, dy: number): boolean {
    const before = this.#camera;
    this.#look(moved(this.#camera, dx, dy));
    return this.#camera.x !== before.x || this.#camera.y !== before.y;
  }

  #zoomBy(factor: number): void {
    this.#look(zoomed(this.#camera, this.#view.width / 2, this.#view.height / 2, factor));
  }

  #look(camera: Camera): void {
    cancelAnimationFrame(this.#gliding);
    this.#to(camera);
  }

  #to(camera: Camera): void {
    this.#camera = held(camera, this.#scene, this.#view);
    this.#draw();
  }

  #glide(to: Camera): void {
    const from = this.#camera;
    cancelAnimationFrame(this.#gliding);
    if (from === to) return;
    if (window.matchMedia("(prefers-reduced-motion: reduce)").matches) return this.#to(to);
    const started = performance.now();
    const step = () => {
      const part = Math.min((performance.now() - started) / GLIDE, 1);
      this.#to(between(from, to, part * (2 - part)));
      if (part < 1) this.#gliding = requestAnimationFrame(step);
    };
    this.#gliding = requestAnimationFrame(step);
  }

  #draw(): void {
    if (!this.#frameAsked) this.#frameAsked = requestAnimationFrame(() => this.#paint());
  }

  #paint(): void {
    this.#frameAsked = 0;
    const [camera, scene, seen] = [this.#camera, this.#scene, this.#seen];
    if (!this.#view.width) return;
    this.#scale.textContent = `${Math.round(camera.scale * 100)} %`;
    this.#minimap.seen(seen);
    const far = camera.scale < NEAR || sum(scene.marks, mark => Number(overlap(mark, seen))) > MOST_ELEMENTS;
    this.#canvas.hidden = !far;
    this.#layers.element.style.display = far ? "none" : "";
    if (far) return paintCanvas(this.#canvas, scene, camera, this.#lit, this.#colours);
    this.#layers.look(seen, camera.scale);
    const made = this.#layers.cover(scene, seen);
    if (made === "later") this.#draw();
    if (made === "nothing") return;
    this.#dress(null);
    this.#name();
  }

  /** What is in view. */
  get #seen(): Rectangle {
    const [camera, view] = [this.#camera, this.#view];
    return { x: camera.x, y: camera.y, width: view.width / camera.scale, height: view.height / camera.scale };
  }

  #relight(): void {
    const lines = new Set<Line>();
    const near = this.#pointed ?? this.#current;
    for (const line of this.#scene.lines) {
      const own = near !== null && (line.from === near || line.to.includes(near));
      if (own || (this.#hot.has(line.from) && line.to.some(mark => this.#hot.has(mark)))) lines.add(line);
    }
    const before = this.#lit;
    this.#lit = { hot: this.#hot, current: this.#current, lines };
    this.#dress(before);
    if (!this.#canvas.hidden) this.#draw();
  }

  #dress(before: Lit | null): void {
    const near = this.#pointed ?? this.#current;
    const { hot } = this.#lit;
    const ties = this.#scene.ties.filter(tie => tie.from === near || tie.to === near || (hot.has(tie.from) && hot.has(tie.to)));
    this.#layers.dress(before, this.#lit, ties);
  }

  #point(mark: Mark | null, x: number, y: number): void {
    if (mark === this.#pointed) return;
    this.#pointed = mark;
    this.element.classList.toggle("ex-g-pointed", mark !== null);
    this.#hooks.hovered(mark, x, y);
    this.#relight();
  }

  #markAt(x: number, y: number): Mark | null {
    return markAt(this.#scene, this.#camera.x + x / this.#camera.scale, this.#camera.y + y / this.#camera.scale);
  }

  #hover(x: number, y: number): void {
    this.#point(this.#markAt(x, y), x, y);
  }

  #click(x: number, y: number): void {
    const mark = this.#markAt(x, y);
    if (mark && mark.item.kind !== "leaf" && (this.#camera.x + x / this.#camera.scale) - mark.x < 22 && this.#camera.scale > NEAR) return this.#hooks.toggled(mark);
    this.setCurrent(mark);
    this.#hooks.chosen(mark);
  }

  #doubleClick(x: number, y: number): void {
    const mark = this.#markAt(x, y);
    if (mark && mark.item.kind !== "leaf") this.#hooks.toggled(mark);
  }

  #key(event: KeyboardEvent): void {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target !== this.element) return;
    const current = this.#current;
    const arrow = WAYS[event.key];
    this.#point(null, 0, 0);
    if (arrow && (event.shiftKey || !this.#scene.marks.length)) this.#move(-STEP * arrow.dx, -STEP * arrow.dy);
    else if (arrow) this.#walk(arrow.way);
    else if (event.key === "+" || event.key === "=") this.#zoomBy(ZOOM);
    else if (event.key === "-") this.#zoomBy(1 / ZOOM);
    else if (event.key === "0") this.fit();
    else if (event.key === "Enter" && current) current.item.kind === "leaf" ? this.#hooks.chosen(current) : this.#hooks.toggled(current);
    else if (event.key === " " && current) this.#hooks.chosen(current);
    else if (event.key === "Backspace" && current) this.#hooks.left(current);
    else if (event.key === "Escape" && current) this.#release();
    else return;
    taken(event);
  }

  #walk(way: Way): void {
    const mark = next(this.#scene, this.#current, way, this.#seen);
    if (!mark) return;
    this.setCurrent(mark);
    this.reveal(mark);
    this.#hooks.walked(mark);
  }

  #release(): void {
    this.setCurrent(null);
    this.#hooks.chosen(null);
  }
}

const WAYS: { readonly [key: string]: { readonly way: Way; readonly dx: number; readonly dy: number } } = {
  ArrowUp: { way: "up", dx: 0, dy: -1 }, ArrowDown: { way: "down", dx: 0, dy: 1 },
  ArrowLeft: { way: "left", dx: -1, dy: 0 }, ArrowRight: { way: "right", dx: 1, dy: 0 },
};
