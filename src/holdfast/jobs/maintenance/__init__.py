"""Maintenance of a fleet's jobs: one service per file, each run by a leader.

Workers compete for leadership leases; the holder of one runs its services and releases it when it
stops. Rescue, deadlines and the search for unknown kinds have one leader in a database. Retention,
probes and periodic jobs follow declarations, so they have one leader for each set of workers with
the same declarations: with two apps in one database, or two releases of an app, each is maintained
by a worker that knows its kinds.

Leadership only saves work: services are safe to run concurrently, so an old leader that has not
noticed the new one does no harm, and neither do two leaders that share a kind.
"""
