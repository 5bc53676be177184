"""Declare jobs: apps, kinds, downstreams, retention, and how arguments and results are encoded.

Nothing here does I/O. For authors of apps; `client` and `worker` both build on it.
"""
