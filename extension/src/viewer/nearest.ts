/** Scrolls a list so that one of its items is seen, and moves nothing else. */
export function nearest(list: HTMLElement, item: HTMLElement): void {
  const [outer, inner] = [list.getBoundingClientRect(), item.getBoundingClientRect()];
  if (inner.top < outer.top) list.scrollTop -= outer.top - inner.top;
  else if (inner.bottom > outer.bottom) list.scrollTop += inner.bottom - outer.bottom;
  if (inner.left < outer.left) list.scrollLeft -= outer.left - inner.left;
  else if (inner.right > outer.right) list.scrollLeft += inner.right - outer.right;
}
