/** A name that any file system takes. */
export function fileName(title: string): string {
  return title.replace(/[^\w.-]+/g, "_").replace(/^_+|_+$/g, "") || "record";
}
