"""What an answer asks us to wait: the header Retry-After of HTTP."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that an answer asks to wait; None where it asks for nothing that can be read.

    A date counts from the answer's own Date: our clock is compared with nobody's.
    """
    wanted = headers.get("Retry-After", "").strip()
    if wanted.isascii() and wanted.isdigit():
        return float(wanted[:9])
    try:
        return max(
            0.0, (parsedate_to_datetime(wanted) - parsedate_to_datetime(headers.get("Date", ""))).total_seconds()
        )
    except (ValueError, TypeError):
        return None
