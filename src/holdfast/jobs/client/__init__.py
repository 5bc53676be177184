"""Use jobs: enqueue, query, wait, cancel and retry them; dead letters; control of downstreams.

Imports `declare` and the store port, never `worker`: a process that only enqueues needs no more.
"""
