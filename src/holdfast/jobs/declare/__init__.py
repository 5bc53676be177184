"""Declare jobs: apps, kinds, downstreams, retention, and how arguments and results are encoded.

Nothing here does I/O. Authors of apps use it directly; `client` and `worker` build on it.
"""
