"""Look at processes, as Linux sees them."""

from pathlib import Path


def children_of(pid: int) -> list[int]:
    """Return the ids of the processes that `pid` has started itself."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    """Say whether there is such a process; one that has ended and was not waited for is none."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
