"""Maintenance of a fleet's jobs: one service per file, run by one leader.

Workers compete for a leadership lease; its holder runs all services and releases it when it stops.
Leadership only saves work: services are safe to run concurrently, so an old leader that has not
noticed the new one does no harm.
"""
