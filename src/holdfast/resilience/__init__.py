"""Guarded calls inside one process: retries, breakers, limits, deadlines, statistics.

Standard library only. `service.py` is the door; `call.py` decides what happens next in a call,
`drivers.py` does it, for blocking and for asynchronous operations alike.
"""
