"""Keep the length of leases when the wall clock jumps.

A lease ends at a time of the wall clock, which may jump: a person sets it, or a laptop wakes up.
The monotonic clock does not jump, and all processes of a machine share it until the next boot. So
the file records how far the wall clock is ahead of the monotonic clock. Each transaction that
writes or judges leases compares the record with its own clocks first. A difference is a jump: all
leases and leaderships move with the clock, and end as much later or earlier as it has jumped, also
those of relays on messages and of consumers on requests. A process that is stopped changes neither
clock: its leases expire after their length.
"""

from holdfast.store.sqlite.process_identity import boot_id
from holdfast.store.sqlite.transaction import Transaction

_LEAST = 0.5
"""Seconds; reading two clocks one after the other differs by less."""


def follow(tx: Transaction) -> None:
    """Move all leases by what the wall clock has jumped since the last call by any process."""
    boot = boot_id()
    if boot is None:
        return  # it is unknown which monotonic clock was recorded
    found = tx.rows("clock_recorded")
    if found:
        recorded_boot, recorded = found[0]
        jump = tx.clock_offset - recorded
        if recorded_boot == boot:
            if abs(jump) < _LEAST:
                return
            tx.change("clock_move_leases", {"jump": jump})
            tx.change("clock_move_leaderships", {"jump": jump})
            tx.change("clock_move_workers", {"jump": jump})
            tx.change("clock_move_messages", {"jump": jump})
            tx.change("clock_move_requests", {"jump": jump})
    tx.change("clock_record", {"boot": boot, "offset": tx.clock_offset})
