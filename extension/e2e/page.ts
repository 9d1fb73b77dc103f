// The page's side of bare.ts.

import type { Host, Live } from "../src/viewer/host";
import { mount, type Viewer } from "../src/viewer/mount";
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
  recall: () => undefined, remember: () => undefined, dark: new Signal(false), download: () => undefined, live: new Signal<Live | null>(live), link: address => address,
  page: () => Promise.resolve(""),
};
let viewer: Viewer | null = null;

const offered: Bare = {
  mount: record => {
    viewer?.dispose();
    viewer = mount(document.getElementById("viewer") as HTMLElement, record, host);
  },
  update: record => viewer?.update(record),
  open: address => viewer?.open(address) ?? false,
  say: message => listeners.forEach(listener => listener(message)),
};
Object.assign(window, offered);
