"""How big one input of a run may be, whichever door it comes through."""

from accounts.errors import Refused

MAX_INPUT_BYTES = 8 * 1024 * 1024


class InputTooBig(Refused):
    """No run was started. Input {name} has more than {limit} bytes, and no more are taken."""

    code = "INPUT_TOO_BIG"
    status = 413


def too_big(name: str, size: int) -> InputTooBig | None:
    """The refusal of an input of this size, or None. Asked before its bytes are read."""
    if size <= MAX_INPUT_BYTES:
        return None
    return InputTooBig({"name": name, "limit": MAX_INPUT_BYTES})
