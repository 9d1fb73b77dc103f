// The page's side of bare.ts.

import type { Host, Live } from "../src/viewer/host";
import { mount, mountDiff, type Viewer } from "../src/viewer/mount";
import type { ToPage } from "../src/viewer/protocol";
import { Signal } from "../src/viewer/signal";
import type { Bare } from "./bare";

const listeners = new Set<(message: ToPage) => void>();
const live: Live = {
  listen: listener => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  send: () => undefined,
  interrupt: () => undefined,
};
const host: Host = {
  recall: () => undefined, remember: () => undefined,
  dark: new Signal(matchMedia("(prefers-color-scheme: dark)").matches), download: () => undefined,
  live: new Signal<Live | null>(live), link: address => address,
  page: () => Promise.resolve(""),
};
let viewer: Pick<Viewer, "dispose"> & Partial<Viewer> | null = null;
const root = () => document.getElementById("viewer") as HTMLElement;

const offered: Bare = {
  mount: record => {
    viewer?.dispose();
    viewer = mount(root(), record, host);
  },
  compare: (before, after) => {
    viewer?.dispose();
    viewer = mountDiff(root(), before, after, host);
  },
  update: record => viewer?.update?.(record),
  open: address => viewer?.open?.(address) ?? false,
  say: message => listeners.forEach(listener => listener(message)),
};
Object.assign(window, offered);
