"""How a time and a span read. static/js/times.js says the same in the browser, in the viewer's zone."""

from datetime import UTC, datetime, timedelta


def span(length: timedelta) -> str:
    """A length in at most two units, always with units: `0.4 s`, `9 s`, `16 min 34 s`, `2 h 04 min`, `3 d 4 h`."""
    seconds = max(0.0, length.total_seconds())
    if seconds < 1:
        return f"{seconds:.1f} s" if seconds >= 0.05 else "0 s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def clock(at: datetime, now: datetime) -> str:
    """Time of day in UTC with seconds; with the date in front when it is not today."""
    at, now = at.astimezone(UTC), now.astimezone(UTC)
    day = "" if at.date() == now.date() else f"{at.day} {at:%b %Y} " if at.year != now.year else f"{at.day} {at:%b} "
    return f"{day}{at:%H:%M:%S}"


def exact_time(at: datetime) -> str:
    """ISO 8601 in UTC with milliseconds, for `datetime` attributes and titles."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
