"""Why something local could not be started."""


class LocalError(Exception):
    """Could not be started. The message is for the person at the terminal: what, why, and what one can do."""
