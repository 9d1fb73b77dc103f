/** Gives the user a file, as a link to it would. */
export function download(name: string, mime: string, contents: string | Blob): void {
  const url = URL.createObjectURL(contents instanceof Blob ? contents : new Blob([contents], { type: mime }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  window.setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
