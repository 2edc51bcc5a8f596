"""Numbers that an address or a form names."""


def whole(text: str) -> int:
    """A whole number of at most nine digits; 0 for anything else, which no row has."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def amount_of(text: str) -> int:
    """An amount as a column of eight bytes holds it; 0 for anything else, which no cap is."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
