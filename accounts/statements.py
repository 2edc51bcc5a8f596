"""Constant SQL, sent prepared: how what is done at every run and every step reaches the database.

The ORM compiles a query anew at each call, which costs ten times as much as to send it. It serves everything else.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from django.core.exceptions import ObjectDoesNotExist
from django.db import connection, models
from psycopg import RawCursor

# The rows that one statement gave, by the names of its parts.
Gathered = Mapping[str, Sequence[Sequence[Any]]]

M = TypeVar("M", bound=models.Model)

# The key that new bodies of a tenant are sealed with.
DATA_KEY = """
data_key AS (SELECT k.id FROM accounts_datakey k WHERE k.tenant_id = %(tenant)s AND k.retired_at IS NULL)"""

# The roles of active members, kept as they are until the commit.
MEMBERS = """
members AS (
    SELECT u.username, m.roles FROM accounts_membership m JOIN accounts_user u ON u.id = m.user_id
    WHERE m.tenant_id = %(tenant)s AND u.username = ANY(%(members)s::text[]) AND u.is_active FOR SHARE)"""

_NAMED = re.compile(r"%\((\w+)\)s")


def fetch(sql: str, params: Mapping[str, Any], *, binary: bool = False) -> list[tuple[Any, ...]]:
    """Send a statement whose text is the same each time, with `%(name)s` for what differs. Returns its rows."""
    connection.ensure_connection()
    numbered, names = _numbered(sql)
    with connection.wrap_database_errors, RawCursor(connection.connection) as cursor:
        cursor.execute(numbered, [params[name] for name in names], prepare=True, binary=binary)
        return cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []


def joined(*parts: str, select: str) -> str:
    """One statement made of named parts, in the order of the locks."""
    return "WITH" + ",".join(parts) + "\n" + select


def gathered(*parts: str, of: Sequence[str]) -> str:
    """One statement made of named parts that gives the rows of those named in `of`, whatever their columns, for `gather`.

    The parts are read in the order of `of`.
    """
    return joined(*parts, select="\nUNION ALL ".join(f"SELECT '{name}', ROW(t.*) FROM {name} t" for name in of))


def gather(sql: str, params: Mapping[str, Any]) -> Gathered:
    """Send a statement that `gathered` made. Returns the rows of each part by its name, none for a part that gave none.

    They come in binary, where each field of a row says of which type it is.
    """
    rows: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for name, row in fetch(sql, params, binary=True):
        rows[name].append(row)
    return rows


def stored_rows(model: type[M], where: str, params: Mapping[str, Any]) -> list[M]:
    """The rows of a table for which a constant condition holds; `where` may go on with an order and a lock."""
    return stored(model, fetch(f"{_chosen(model).select} WHERE {where}", params))


def stored_row(model: type[M], where: str, params: Mapping[str, Any]) -> M:
    """The one row for which a constant condition holds. Raises ObjectDoesNotExist."""
    for row in stored_rows(model, where, params):
        return row
    raise ObjectDoesNotExist(f"{model.__name__}: {where}")


def columns(model: type[models.Model], of: str = "") -> str:
    """All columns of a table, in the order in which `stored` takes them; `of` is the table's name in the statement.

    JSON comes as text, as the fields of a model read it.
    """
    return ", ".join(f"{of}.{column}" if of else column for column in _chosen(model).columns)


def stored(model: type[M], rows: Iterable[Sequence[Any]]) -> list[M]:
    """Rows that a statement gave with all columns of a table, as that table's model."""
    chosen = _chosen(model)
    return [model.from_db(connection.alias, chosen.names, chosen.read(row)) for row in rows]


@dataclass(frozen=True)
class _Chosen:
    """All columns of a table, and which of them come back in another form than their field has."""

    select: str
    columns: Sequence[str]
    names: Sequence[str]
    converted: Sequence[tuple[int, Any]]

    def read(self, row: Sequence[Any]) -> Sequence[Any]:
        if not self.converted:
            return row
        values = list(row)
        for place, convert in self.converted:
            values[place] = convert(values[place], None, connection)
        return values


@cache
def _chosen(model: type[models.Model]) -> _Chosen:
    table = model._meta  # noqa: SLF001  Django documents it under this name
    fields = table.concrete_fields
    named = [f'"{field.column}"{"::text" if isinstance(field, models.JSONField) else ""}' for field in fields]
    converted = [(place, field.from_db_value) for place, field in enumerate(fields) if hasattr(field, "from_db_value")]
    select = f"SELECT {', '.join(named)} FROM {table.db_table}"
    return _Chosen(select, named, [field.attname for field in fields], converted)


@cache
def _numbered(sql: str) -> tuple[bytes, tuple[str, ...]]:
    """A statement as the server takes it, with `$1` for the first name and so on. psycopg parses a long one at each call."""
    names = tuple(dict.fromkeys(_NAMED.findall(sql)))
    numbers = {name: f"${number}" for number, name in enumerate(names, start=1)}
    return _NAMED.sub(lambda found: numbers[found[1]], sql).encode(), names
