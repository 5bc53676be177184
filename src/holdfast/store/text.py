"""Text that a database can hold."""


def clean(text: str) -> str:
    """Return `text` as something that can be stored, whatever an exception put into it."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "\ufffd")


def clean_or_none(text: str | None) -> str | None:
    """Return `text` as something that can be stored: one odd character refuses no whole tick."""
    return None if text is None else clean(text)
