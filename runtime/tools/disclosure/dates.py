"""The day of a disclosure. No number depends on it, so a day that can be read two ways is kept as written and said."""

import re
from datetime import date

MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan january januar", "feb february februar", "mar march märz", "apr april", "may mai", "jun june juni",
            "jul july juli", "aug august", "sep sept september", "oct october okt oktober", "nov november",
            "dec december dez dezember",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
TIME_OF_DAY = re.compile(r"[T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?(AM|PM))?( ?(Z|UTC|[+-]\d{2}:?\d{2}))?$", re.IGNORECASE)
YEAR_FIRST = re.compile(r"(\d{4})([-/.]?)(\d{2})\2(\d{2})")
NUMERIC = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4})")
DAY_NAME_YEAR = re.compile(r"(\d{1,2})[-. /]{1,2}([^\W\d]+)\.?[-, /]{1,2}(\d{4})")
NAME_DAY_YEAR = re.compile(r"([^\W\d]+)\.?[- ](\d{1,2})(?:st|nd|rd|th)?,?[- ](\d{4})")
AS_OF = re.compile(r"\b(?:as (?:of|at)|date|per)\b[ :\"]*(.*)$", re.IGNORECASE)


def parse(text: str) -> date | None:
    """The day that a text names, or None if it names none or could name two."""
    bare = TIME_OF_DAY.sub("", text.strip())
    if match := YEAR_FIRST.fullmatch(bare):
        return _day(match[1], match[3], match[4])
    if match := NUMERIC.fullmatch(bare):
        return _numeric(match[1], match[2], match[3], match[4])
    if match := DAY_NAME_YEAR.fullmatch(bare):
        return _named(match[3], match[2], match[1])
    if match := NAME_DAY_YEAR.fullmatch(bare):
        return _named(match[3], match[1], match[2])
    return None


def after_as_of(text: str) -> str:
    """What follows `as of` or `date:` in a line above the table, e.g. `Sep 08, 2021`; "" if it isn't such a line."""
    match = AS_OF.search(text)
    rest = match[1].strip(' ":') if match else ""
    return rest if any(char.isdigit() for char in rest) else ""


def _numeric(first: str, separator: str, second: str, year: str) -> date | None:
    """Points mean day first. With slashes or dashes only a number above 12, or twice the same, shows which is which."""
    if separator == "." or int(first) > 12 or first == second:
        return _day(year, second, first)
    return _day(year, first, second) if int(second) > 12 else None


def _named(year: str, name: str, day: str) -> date | None:
    month = MONTHS.get(name.casefold())
    return _day(year, str(month), day) if month else None


def _day(year: str, month: str, day: str) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None
