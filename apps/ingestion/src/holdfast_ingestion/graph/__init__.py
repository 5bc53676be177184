"""The knowledge graph: what the documents of an organisation speak of, and how that is related."""
