"""The app's pages: documents, one document, search and concepts, rendered on the server.

Every page works as forms and links alone. Whatever a document says is text: templates escape all of
it, and what they get as markup is made here.
"""

from pathlib import Path

from holdfast.http import NavItem

FOLDER = Path(__file__).parent
"""Holds `templates` and `static`."""
NAVIGATION = (
    NavItem("Documents", "/documents"),
    NavItem("Search", "/search"),
    NavItem("Concepts", "/concepts"),
)
