/** A name that any file system takes. */
export function fileName(title: string): string {
  return title.split(/[^A-Za-z0-9.-]+/).filter(part => part).join("_") || "record";
}
