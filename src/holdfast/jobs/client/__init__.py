"""Use jobs: enqueue, query, wait, cancel and retry them; dead letters; control of downstreams.

Needs a store and declared apps, never a worker: a process that only enqueues imports nothing else.
"""
