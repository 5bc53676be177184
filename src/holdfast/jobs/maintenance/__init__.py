"""The chores of a fleet: one service a file, run by one leader.

Every worker stands for the leadership; the one that holds the lease runs all services and lets go
when it stops. Leadership only saves work: each service is safe to run twice at once, so the moment
in which an old leader has not yet noticed the new one does no harm.
"""
