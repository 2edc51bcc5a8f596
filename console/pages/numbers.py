"""Numbers that an address or a form names."""


def whole(text: str) -> int:
    """A whole number of at most nine digits; 0 for anything else, which no row has."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
