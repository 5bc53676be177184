"""Make the names of files outlast a loss of power."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable. It blocks."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
