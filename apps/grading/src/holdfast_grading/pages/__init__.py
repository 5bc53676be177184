"""The app's pages: the list of submissions with its form, and one submission.

Both work as forms and links alone. Whatever a submission or a model says is text: templates escape
all of it.
"""

from pathlib import Path

from holdfast.http import NavItem

FOLDER = Path(__file__).parent
"""Holds `templates` and `static`."""
NAVIGATION = (NavItem("Submissions", "/submissions"),)
