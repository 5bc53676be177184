"""Artifacts: the files that jobs read and write, kept apart from the rows that name them.

A file appears under its name whole or not at all, and is durable when it does. Which file counts is
decided by the row that names it, never by what lies on the disk.
"""

from holdfast.files.artifacts import Artifact, ArtifactStore, Draft
from holdfast.files.unreferenced import delete_unreferenced

__all__ = ["Artifact", "ArtifactStore", "Draft", "delete_unreferenced"]
