/** Leaves the field that has the focus, and goes on when what was typed there is in the document. */
export function leaveField(then: () => void) {
  if (document.activeElement instanceof HTMLElement) document.activeElement.blur()
  requestAnimationFrame(() => requestAnimationFrame(then))
}
