/** Hands a text to the browser to be kept as a file: fetched as the page may, since a link of its own would not say who asks. */
export function saveAs(name: string, text: BlobPart, type = 'application/octet-stream') {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([text], { type }))
  link.download = name
  link.click()
  URL.revokeObjectURL(link.href)
}
