// The generated texts of a compile: what can be chosen, and where an element is.

import { type Key, parts } from "../../element";
import { phrase, seconds } from "../../format";
import { entry } from "../../collections";
import type { Links } from "../../links";
import type { CompileData, HalfData, KernelData, TextData } from "../../record";

/** A piece of the program in one or several languages, the first of which is the one that was generated. */
export interface Unit {
  readonly id: string;
  readonly half: HalfData;
  readonly label: string;
  readonly kernel?: KernelData;
  readonly texts: ReadonlyMap<string, TextData>;
}

export const KINDS: { readonly [kind: string]: string } = {
  cpp: "C++", triton: "Triton", python: "Python", asm: "Assembly", ttir: "TTIR", ttgir: "TTGIR", llir: "LLVM IR",
  ptx: "PTX", sass: "SASS",
  amdgcn: "AMD GCN",
};

/** The kernels, the wrapper that calls them, and all of it in one, half by half. */
export function unitsOf(compile: CompileData): Unit[] {
  return (compile.halves ?? []).flatMap(half => {
    const found: Unit[] = (half.kernels ?? []).map(kernel => ({
      id: `${half.name}/${kernel.id}`, half, kernel,
      label: phrase([kernel.function.startsWith(`${kernel.id}_`) ? "" : kernel.id, kernel.function,
        kernel.seconds == null ? "" : seconds(kernel.seconds)], "  "),
      texts: new Map([[kernel.language, kernel.source], ...Object.entries(kernel.lowered ?? {})]),
    }));
    if (half.wrapper)
      found.push({ id: `${half.name}/wrapper`, half, label: "wrapper (calls the kernels)",
        texts: new Map([["python", half.wrapper]]) });
    const whole = compile.stages?.find(each => each.name === "generate" && each.half === half.name)?.body;
    if (whole)
      found.push({ id: `${half.name}/all`, half, label: "everything generated",
        texts: new Map([[whole.language ?? "text", whole]]) });
    return found;
  });
}

/** The unit to begin with: the kernel that takes longest, or else the first one there is. */
export function firstUnit(units: readonly Unit[], half?: string): Unit | undefined {
  const own = units.filter(each => half === undefined || each.half.name === half);
  const timed = own.filter(each => each.kernel?.seconds != null);
  return timed.reduce<Unit | undefined>(
    (best, each) => ((each.kernel?.seconds ?? 0) > (best?.kernel?.seconds ?? 0) ? each : best), undefined) ?? own[0];
}

export interface Spot {
  readonly unit: Unit;
  readonly kind: string;
}

/** All texts of units, and which of them has an element or what it caused first. */
interface Places {
  readonly spots: readonly Spot[];
  readonly first: ReadonlyMap<string, number>;
}

const places = new WeakMap<readonly Unit[], Places>();

const idsIn = ({ unit, kind }: Spot): readonly string[] => (unit.texts.get(kind)?.lines ?? [])
  .flatMap(([, id, origins]) => id || (origins ?? []));

function placesOf(units: readonly Unit[]): Places {
  const spots = units.flatMap(unit => [...unit.texts.keys()].map(kind => ({ unit, kind })));
  const first = new Map<string, number>();
  for (const [n, spot] of spots.entries()) for (const id of idsIn(spot)) if (!first.has(id)) first.set(id, n);
  return { spots, first };
}

/** Where an element is written: the text at hand where it is in it, or else the first one; itself before its chain. */
export function spotOf(units: readonly Unit[], compile: string, links: Links, what: Key,
    at: Spot | undefined): Spot | undefined {
  const { spots, first } = entry(places, units, () => placesOf(units));
  const here = new Set(at && idsIn(at));
  const holds = (wanted: Iterable<Key>) => {
    let least = Infinity;
    for (const each of wanted) {
      const of = parts(each);
      if (of.compile && of.compile !== compile) continue;
      if (here.has(of.id)) return at;
      least = Math.min(least, first.get(of.id) ?? Infinity);
    }
    return spots[least];
  };
  const kernel = units.find(each => each.kernel?.id === parts(what).id);
  if (kernel)
    return { unit: kernel, kind: at && kernel.texts.has(at.kind) ? at.kind : ([...kernel.texts.keys()][0] ?? "") };
  return holds([what]) ?? holds(links.chain(what));
}
