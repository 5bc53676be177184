"""Guarded calls inside one process: retries, breakers, limits, deadlines, statistics.

Standard library only. `service.py` is where calls enter, `call.py` decides what happens next in a
call, and `drivers.py` does it, for blocking and for asynchronous operations alike.
"""
