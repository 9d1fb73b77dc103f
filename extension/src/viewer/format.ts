// Numbers as people read them.

const PREFIXES = [[1, ""], [1e-3, "m"], [1e-6, "u"], [1e-9, "n"]] as const;

/** Seconds with a unit that suits: "1.32 s", "41.7 ms", "0.93 us". */
export function seconds(value: number): string {
  if (!value) return "0 s";
  const [scale, prefix] = PREFIXES.find(([least]) => Math.abs(value) >= least) ?? [1e-9, "n"];
  return `${three(value / scale)} ${prefix}s`;
}

/** By powers of a thousand, as print(record) and the strip tell it: "786 kB". */
export const bytes = (value: number): string => (value < 1000 ? `${value} B` : scaled(value, "B"));

/** "12,345", of a whole number. The first toLocaleString of a page takes as long as opening a small record. */
export function grouped(of: number): string {
  return Number.isSafeInteger(of) && Math.abs(of) >= 1000
    ? `${grouped(Math.trunc(of / 1000))},${`${Math.abs(of % 1000)}`.padStart(3, "0")}` : String(of);
}

/** "1 guard", "3 guards". */
export function count(of: number, one: string, many = `${one}s`): string {
  return `${grouped(of)} ${of === 1 ? one : many}`;
}

/** The words that there are, with something between them. */
export function phrase(words: readonly (string | number | false | null | undefined)[], between: string): string {
  return words.filter(Boolean).join(between);
}

export const percent = (share: number): string => (share > 0 && share < 0.01 ? "<1 %" : `${Math.round(share * 100)} %`);

/** A file's path without what all readers know. */
export const shortFile = (path: string): string => path.split(/[/\\]/).pop() || path;

function three(value: number): string {
  const size = Math.abs(value);
  return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

const DECIMAL = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]] as const;

/** A count of something by powers of a thousand: "4.82 GB/s", "69.9 GFLOP/s". */
export function scaled(value: number, unit: string): string {
  const [scale, prefix] = DECIMAL.find(([least]) => Math.abs(value) >= least) ?? [1, ""];
  return `${three(value / scale)} ${prefix}${unit}`;
}

/** A name that any file system takes. */
export function fileName(title: string): string {
  return title.split(/[^A-Za-z0-9.-]+/).filter(part => part).join("_") || "record";
}
