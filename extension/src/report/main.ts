// The standalone report: one HTML file that holds the viewer and a record, and needs neither network nor server.

import { download, unpacked } from "../page/files";
import { Memory } from "../page/memory";
import { fill, h, on } from "../viewer/dom";
import type { Host } from "../viewer/host";
import { mountAny, type Viewer } from "../viewer/mount";
import { Signal } from "../viewer/signal";

async function main(): Promise<void> {
  const root = document.getElementById("viewer");
  const holder = document.getElementById("record");
  if (!root || !holder) throw new Error("This page is damaged: it holds no record.");
  try {
    const viewer: Partial<Viewer> = mountAny(root, await unpacked(holder.textContent ?? ""), host());
    const open = () => void viewer.open?.(location.hash);
    open();
    addEventListener("hashchange", open);
    root.focus({ preventScroll: true }); // so that its keys work at once
  } catch (error) {
    fill(root, h("p", { role: "alert" }, error instanceof Error ? error.message : String(error)));
    throw error;
  }
}

function host(): Host {
  const memory = Memory(location.pathname);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const dark = new Signal(scheme.matches);
  on(scheme, "change", () => (dark.value = scheme.matches));
  const page = () => Promise.resolve(PAGE);
  return {
    recall: name => memory.recall(name),
    remember: (name, value) => memory.remember(name, value),
    dark,
    download,
    live: new Signal(null),
    link: address => `${location.href.replace(/#.*/, "")}${address}`,
    page,
    report: page,
  };
}

/** The page as it came, before the viewer changed it. */
const PAGE = `<!doctype html>${document.documentElement.outerHTML}`;

void main();
