// What make.py wrote: test/run.mjs calls it, once for all files.

const folder = process.env["MADE"];
if (!folder) throw new Error("MADE names no folder that make.py filled: run `npm run e2e`");
export const MADE: string = folder;
