"""Search by meaning: embeddings of the chunks, made by jobs of their own, and the nearest ones.

A document is done when its words are indexed. Its embeddings follow in jobs that call the
downstream `gemini`: while that is held, the document is found by its words, and the jobs go on
later.
"""
