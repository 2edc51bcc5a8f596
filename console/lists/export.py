"""A filtered list as a file: streamed, bounded aloud, and safe to open in a spreadsheet."""

import csv
import json
from collections.abc import Iterable, Iterator
from typing import Any

from django.http import StreamingHttpResponse

from console import clock
from console.lists.cells import Column, formula_safe
from console.lists.listing import Asked

EXPORT_ROWS = 10_000
_CHUNK = 500
FORMATS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


def exported(asked: Asked, format: str) -> StreamingHttpResponse:
    """The rows of a list with the columns that are shown, as the person may see them, in the order of the page.

    At most EXPORT_ROWS of them: the file's last line says when there are more. `format` is one of FORMATS.
    """
    lines = _csv(asked) if format == "csv" else _json(asked)
    answer = StreamingHttpResponse(lines, content_type=FORMATS[format])
    name = f"{asked.listing.key}-{clock.now():%Y-%m-%d-%H%M}.{format}"
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


def _rows(asked: Asked) -> Iterator[Any]:
    """The rows in pages of a chunk each, one more than may go out: it says that there are more."""
    cursor, left = None, EXPORT_ROWS + 1
    while left > 0:
        shown, after = asked.pager.page(asked.shown_rows(), limit=min(_CHUNK, left), cursor=cursor)
        asked.listing.dress(shown)
        yield from shown
        left -= len(shown)
        if after is None:
            return
        cursor = after


def _bounded(rows: Iterable[Any]) -> Iterator[Any]:
    """The rows that may go out, and None where there are more of them."""
    for number, row in enumerate(rows):
        if number == EXPORT_ROWS:
            yield None
            return
        yield row


class _Line:
    """What a csv writer writes to: hands the line back."""

    def write(self, text: str) -> str:
        return text


def _csv(asked: Asked) -> Iterator[str]:
    writer = csv.writer(_Line())
    yield writer.writerow([column.head for column in asked.columns])
    for row in _bounded(_rows(asked)):
        cells = [_MORE] if row is None else [formula_safe(column.cell(row).plain) for column in asked.columns]
        yield writer.writerow(cells)


_MORE = f"There are more than {EXPORT_ROWS:,} rows. Narrow the filter for the rest."


def _json(asked: Asked) -> Iterator[str]:
    yield '{"rows":['
    more = False
    for number, row in enumerate(_bounded(_rows(asked))):
        if row is None:
            more = True
            break
        yield ("," if number else "") + json.dumps(_record(asked.columns, row), ensure_ascii=False)
    yield f'],"more":{json.dumps(_MORE if more else None)}}}'


def _record(columns: Iterable[Column], row: Any) -> dict[str, str | None]:
    cells = {column.key: column.cell(row) for column in columns}
    return {key: None if cell.value is None else cell.plain for key, cell in cells.items()}
