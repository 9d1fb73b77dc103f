import type { Plugin } from "esbuild";

export const styles: Plugin;
