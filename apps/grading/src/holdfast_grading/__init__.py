"""Submissions in, grades out: through an outbox, with callbacks and deadlines."""
