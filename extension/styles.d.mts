import type { Plugin } from "esbuild";

export const styles: Plugin;

export function nested(css: string): string;
