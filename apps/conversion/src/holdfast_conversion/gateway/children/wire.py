"""What parent and child agree on: one message is one packet of JSON."""

MESSAGE_BYTES = 2048
"""The longest message; a descriptor for the PDF and one for the XML travel beside it."""

TAKEN = b"{}"
"""What a child says as soon as it has a file: from here on its death is about that file."""
