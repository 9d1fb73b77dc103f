// The schedule as a drawing: boxes in the order in which they run, and lines for the buffers that flow between them.

import { drawing, fitted, mark, textWidth } from "../../chart";
import { svg } from "../../dom";
import { type Key, key } from "../../element";
import { bytes, count, phrase, seconds } from "../../format";
import type { Linked } from "../../linked";
import type { HalfData } from "../../record";
import { CHIP_HEIGHT, rail, type RailBox, type Lane } from "./rail";
import { most } from "../../collections";

const LEAST_BOX = 200;
const MOST_BOX = 460;
const LANE = 10;
const LEAST_LANE = 3.5;

export interface ScheduleFacts {
  readonly half: HalfData;
  readonly compile: string;
  /** Seconds of a step, where they were measured. */
  seconds(item: string): number | null;
  /** What a person calls an operation. */
  named(operation: string): string;
}

export function drawSchedule(facts: ScheduleFacts, width: number, linked: Linked): SVGSVGElement | null {
  const { half, compile } = facts;
  if (!half.schedule || half.schedule.items.length === 0) return null;
  const boxWidth = Math.max(Math.min(LEAST_BOX, width - 20), Math.min(MOST_BOX, Math.round(width * 0.55)));
  const plan = rail(half, boxWidth, facts.named);
  const room = width - boxWidth - 14;
  const step = Math.min(LANE, Math.max(LEAST_LANE, room / (plan.laneCount + 1)));
  const sizes = new Map((half.buffers ?? []).map(each => [each.name, each.bytes ?? 0]));
  const longest = Math.max(0, ...half.schedule.items.map(each => facts.seconds(each.id) ?? 0));
  const boxes = plan.boxes.map(box => drawBox(box, boxWidth, facts, longest, linked));
  const lanes =
    plan.lanes.map(
      lane => drawLane(lane, boxWidth, step, width, sizes.get(lane.buffer) ?? 0, facts.named(lane.buffer), key(compile,
        lane.buffer), linked));
  const name =
    `${count(plan.boxes.length, "step")} in the order in which they run, and the buffers that flow between them`;
  return drawing(width, plan.height + 2, name, svg("g", ...lanes), svg("g", ...boxes));
}

function drawBox(
  box: RailBox, width: number, { compile, seconds: spent }: ScheduleFacts, longest: number, linked: Linked,
): SVGGElement {
  const { item } = box;
  const kind = item.kind === "extern" ? "library call" : "kernel";
  const axes = phrase([item.outer, item.inner ? `reduces ${item.inner}` : ""], ", ");
  const time = spent(item.id);
  const timeText = time === null ? "" : seconds(time);
  const space = width - 16 - textWidth(item.id, 12) - 12 - textWidth(timeText);
  const name = phrase([`${kind} ${item.id}`, axes, timeText, `runs ${item.operations.join(", ")}`], "; ");
  const chips = box.chips.map(chip => {
    const operation = mark(
      `operation ${chip.id}: ${chip.text}`, "ex-op",
      svg("rect", { x: chip.x + 1, y: chip.y, width: chip.width, height: CHIP_HEIGHT, rx: 3 }),
      svg("text", { x: chip.x + 7, y: chip.y + 13 }, fitted(chip.text, chip.width - 8)),
    );
    operation.dataset.operation = chip.id;
    return linked.add(operation, key(compile, chip.id));
  });
  const bar = time !== null && longest > 0
    ? svg("rect.ex-share",
      { x: 1, y: box.y + box.height - 2, width: Math.max(1, (width - 2) * (time / longest)), height: 3 })
    : null;
  const more = box.hidden ? svg("text.ex-tick", { x: width - 8, y: box.y + box.height - 8, "text-anchor": "end" },
    `and ${box.hidden} more`) : null;
  const group = mark(
    name, item.kind === "extern" ? "ex-step ex-extern" : "ex-step",
    svg("rect.ex-step-box", { x: 1, y: box.y + 1, width, height: box.height, rx: 4 }),
    svg("text.ex-step-name", { x: 9, y: box.y + 16 }, item.id),
    svg("text.ex-tick", { x: 15 + textWidth(item.id, 12), y: box.y + 16 },
      fitted(item.kind === "extern" ? "library call" : axes, space)),
    svg("text.ex-step-time", { x: width - 7, y: box.y + 16, "text-anchor": "end" }, timeText),
    bar, more,
  );
  return svg("g", linked.add(group, key(compile, item.id), ...item.operations.map(id => key(compile, id))), ...chips);
}

function drawLane(lane: Lane, boxWidth: number, step: number, width: number, size: number, called: string, own: Key,
    linked: Linked): SVGGElement {
  const left = boxWidth + 2;
  const x = left + 10 + lane.lane * step;
  const last = most(lane.ends);
  const paths = [`M${left} ${lane.y}H${x}V${last}`, ...lane.ends.map(y => `M${x} ${y}H${left + 5}`)].join("");
  const heads = lane.ends.map(y => `M${left} ${y}l6 -3v6z`).join("");
  const label = fitted(phrase([size > 0 ? bytes(size) : "", called], " · "), width - x - 8, 10);
  const name =
    `${called} (${lane.buffer})${size > 0 ? `, ${bytes(size)}` : ""}, read ${count(lane.to.length, "time")} later`;
  const flow = mark(
    name, "ex-flow",
    svg("path.ex-flow-line", { d: paths }),
    svg("path.ex-flow-reach", { d: paths }),
    svg("path.ex-flow-head", { d: heads }),
    svg("text.ex-flow-name", { x: x + 5, y: lane.y + 3.5 }, label),
  );
  return linked.add(flow, own);
}
