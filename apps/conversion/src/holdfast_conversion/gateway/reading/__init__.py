"""Read a PDF: characters from PDFium, then words, lines, blocks and paragraphs by our own rules."""
