"""Constant SQL, sent prepared: how what is done at every run and every step reaches the database.

The ORM compiles a query anew at each call, which costs ten times as much as to send it. It serves everything else, and where a
page asks many small questions at once, `together` sends them as one statement (ADR 0062).
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from struct import Struct
from typing import Any, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from django.core.exceptions import EmptyResultSet, ObjectDoesNotExist
from django.db import DEFAULT_DB_ALIAS, connection, connections, models
from django.db.models import QuerySet
from django.db.models.query import get_related_populators
from django.db.models.sql.compiler import SQLCompiler
from psycopg import Connection, Cursor, DataError, RawCursor, pq
from psycopg.errors import InvalidSqlStatementName, error_from_result
from psycopg.generators import execute

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
    wrapper = connections[DEFAULT_DB_ALIAS]  # looked up once: it costs a tenth of a statement
    wrapper.ensure_connection()
    numbered, names = _numbered(sql)
    with wrapper.wrap_database_errors, RawCursor(wrapper.connection) as cursor:
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


def plan_ahead(sql: str) -> None:
    """Have the server plan a constant statement without running it, so that this session has in mind what has to be known of
    its tables: that costs a new session more than the plan. Only where plans are made without values.
    """
    numbered, names = _numbered(sql)
    with connection.cursor() as cursor:
        cursor.execute(f"PREPARE ahead AS {numbered.decode()}")
        cursor.execute(
            f"EXPLAIN EXECUTE ahead({', '.join('NULL' for _ in names)})" if names else "EXPLAIN EXECUTE ahead"
        )
        cursor.execute("DEALLOCATE ahead")


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


# ── one row, at a step's price ───────────────────────────────────────────────


@dataclass(frozen=True)
class _Form:
    """How values of one Python type are sent: as which type of the server (0: it finds out), and in which format."""

    oid: int
    format: pq.Format
    write: Callable[[Any], bytes | None]


def _text(value: str) -> bytes:
    if "\0" in value:
        raise DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    return value.encode()


_UNKNOWN_TEXT = _Form(0, pq.Format.TEXT, _text)
_FORMS: dict[type, _Form] = {
    str: _UNKNOWN_TEXT,
    type(None): _Form(0, pq.Format.TEXT, lambda _: None),
    bool: _Form(16, pq.Format.BINARY, {True: b"\1", False: b"\0"}.__getitem__),
    bytes: _Form(17, pq.Format.BINARY, bytes),
    int: _Form(20, pq.Format.BINARY, Struct("!q").pack),
    float: _Form(701, pq.Format.BINARY, Struct("!d").pack),
    UUID: _Form(2950, pq.Format.BINARY, lambda value: value.bytes),
}
# How a column of the answer is read, by the type that the server gives it.
_READ: dict[int, Callable[[bytes], Any]] = {
    16: b"t".__eq__,
    **dict.fromkeys((20, 21, 23), int),
    **dict.fromkeys((25, 114, 1043, 3802), bytes.decode),
}


def as_array(values: Iterable[Any]) -> str:
    """Ids or names, none with a sign that arrays use, as the text of an array: what `fetch_row` sends in the place of a list."""
    return f"{{{','.join(map(str, values))}}}"


Names = dict[tuple[bytes, tuple[int, ...]], bytes]

# What each session has prepared of these statements: its name, by the text and the types of the values.
_names: WeakKeyDictionary[Connection, Names] = WeakKeyDictionary()


def fetch_row(sql: str, params: Mapping[str, Any]) -> tuple[Any, ...]:
    """The one row that a constant statement with named values gives, for half of what `fetch` costs on this side: a cursor
    of psycopg finds out at each call what is the same each time. For what every step sends.

    Takes texts, numbers, UUIDs, bytes, truths and nulls; gives texts (JSON as one), whole numbers, truths and nulls. In a
    transaction it goes through `fetch`, since a rollback makes psycopg forget what is prepared. Raises LookupError where
    there is no row, TypeError for a value or a column of another type.
    """
    wrapper = connections[DEFAULT_DB_ALIAS]
    if wrapper.in_atomic_block or not wrapper.get_autocommit():
        return _first(fetch(sql, params))
    numbered, names = _numbered(sql)
    values = [params[name] for name in names]
    with wrapper.wrap_database_errors:
        result = send_prepared(wrapper.connection, numbered, values)
    if not result.ntuples:
        raise LookupError("a statement of a step answers with one row")
    return tuple(_column(result, number) for number in range(result.nfields))


def send_prepared(session: Connection, statement: bytes, values: Sequence[Any]) -> pq.abc.PGresult:
    """Send one prepared statement outside of any transaction. Raises psycopg's errors."""
    forms = [_FORMS.get(type(value)) or _form(value) for value in values]
    written = [form.write(value) for form, value in zip(forms, values, strict=True)]
    formats, types = [form.format for form in forms], tuple([form.oid for form in forms])
    names = _names.setdefault(session, {})
    try:
        name = names.get((statement, types)) or _prepare(session, statement, types)
        session.pgconn.send_query_prepared(name, written, formats)
        return _answer(session)
    except InvalidSqlStatementName:  # psycopg has let go what was prepared, after a rollback: nothing was done
        names.clear()
        session.pgconn.send_query_prepared(_prepare(session, statement, types), written, formats)
        return _answer(session)


def _prepare(session: Connection, statement: bytes, types: tuple[int, ...]) -> bytes:
    name = b"step_%d" % next(_numbers)
    session.pgconn.send_prepare(name, statement, types)
    _answer(session)
    _names[session][statement, types] = name
    return name


def _answer(session: Connection) -> pq.abc.PGresult:
    """What the server answers. psycopg waits for it, so that signals are heard and a lost connection is told as such."""
    result: pq.abc.PGresult = session.wait(execute(session.pgconn))[-1]
    if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
        raise error_from_result(result)
    return result


_numbers = count(1)


def _form(value: Any) -> _Form:
    """The form of a value whose type is made of one that can be sent, such as a member of an enum."""
    for kind, form in _FORMS.items():
        if isinstance(value, kind):
            return _FORMS.setdefault(type(value), form)
    raise TypeError(f"a step sends no {type(value).__name__}")


def _column(result: pq.abc.PGresult, number: int) -> Any:
    value = result.get_value(0, number)
    if value is None:
        return None
    read = _READ.get(result.ftype(number))
    if read is None:
        raise TypeError(f"a step reads no column of type {result.ftype(number)}")
    return read(value)


def _first(rows: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    if not rows:
        raise LookupError("a statement of a step answers with one row")
    return rows[0]


@contextmanager
def planned_anew() -> Iterator[None]:
    """Questions of the ORM that are asked inside are planned for their own values. Otherwise the server keeps one plan for any value of
    what is asked often, and reads a whole table where the states that are asked for are the rare ones.
    """
    connection.ensure_connection()
    session = connection.connection
    kept, session.prepare_threshold = session.prepare_threshold, None
    try:
        yield
    finally:
        session.prepare_threshold = kept


# ── several questions in one statement ───────────────────────────────────────


@dataclass(frozen=True)
class Questions:
    """Questions that are composed as one statement, to be asked once or, of other rows, again and again."""

    compilers: Sequence[SQLCompiler]
    sql: str
    values: Sequence[Any]

    def ask(self, instead: Mapping[UUID, UUID | None] | None = None) -> list[list[Any]]:
        """The rows of each, in the order given. `instead`: the ids that are meant by those they were composed with."""
        found: list[list[Sequence[Any]]] = [[] for _ in self.compilers]
        meant = instead or {}
        values = [meant.get(value, value) if isinstance(value, UUID) else value for value in self.values]
        for place, row in _asked(self.sql, values) if self.sql else ():
            found[place].append(row)
        return [
            list(_read(compiler, rows)) if rows else [] for compiler, rows in zip(self.compilers, found, strict=True)
        ]


def compose(*questions: QuerySet[Any]) -> Questions:
    """Several questions as one statement. What a page asks at each look is composed once, since that costs as much as to ask it.

    Takes querysets of models with filters, order, limit, defer and select_related, not prefetch_related and not values().
    """
    compilers = [question.query.get_compiler(connection=connection) for question in questions]
    texts = {place: text for place, compiler in enumerate(compilers) if (text := _question(compiler))}
    parts = [f"SELECT {place}, ROW(t.*) FROM ({text}) t" for place, (text, _) in texts.items()]
    return Questions(compilers, "\nUNION ALL ".join(parts), [value for _, values in texts.values() for value in values])


def together(*questions: QuerySet[Any]) -> list[list[Any]]:
    """The rows of each queryset, in the order given, in one statement: what `compose` takes."""
    return compose(*questions).ask()


def count_together(*questions: QuerySet[Any]) -> list[int]:
    """How many rows each queryset has, in the order given, in one statement. A limited one is counted up to its limit."""
    texts = [_question(question.values("pk").query.get_compiler(connection=connection)) for question in questions]
    parts = [f"(SELECT count(*) FROM ({text[0]}) counted)" if text else "0" for text in texts]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(parts)}", [value for text in texts if text for value in text[1]])
        return list(cursor.fetchone())


def _question(compiler: SQLCompiler) -> tuple[str, Any] | None:
    """A question as SQL with its values, or None where it is known to have no rows, as that of somebody who may not read."""
    try:
        return compiler.as_sql()
    except EmptyResultSet:
        return None


def _asked(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The rows in binary, where each field of a row says of which type it is."""
    with connection.cursor() as wrapped:
        rows: Cursor[Any] = wrapped.cursor
        rows.format = 1  # type: ignore[assignment]
        wrapped.execute(sql, values)
        found: list[tuple[Any, ...]] = wrapped.fetchall()
    return found


def _read(compiler: SQLCompiler, rows: Sequence[Sequence[Any]]) -> Iterator[Any]:
    """Rows as the instances that the queryset itself would give."""
    select, info, annotations = compiler.select, compiler.klass_info, compiler.annotation_col_map
    if info is None:
        raise TypeError("a question is a queryset of a model")
    fields = info["select_fields"]
    names = [select[place][0].target.attname for place in fields]
    populators = get_related_populators(info, select, connection.alias)  # type: ignore[call-arg]  # typed for a later Django
    for row in _converted(compiler, rows):
        one = info["model"].from_db(connection.alias, names, row[fields[0] : fields[-1] + 1])
        for populator in populators:
            populator.populate(row, one)
        for name, place in (annotations or {}).items():
            setattr(one, name, row[place])
        yield one


def _converted(compiler: SQLCompiler, rows: Sequence[Sequence[Any]]) -> Iterator[list[Any]]:
    """Fields read as Django reads them. JSON is read already: in binary the driver does it."""
    read = [expression for expression, *_ in compiler.select]
    converters = {
        place: found
        for place, found in compiler.get_converters(read).items()
        if found[1].output_field.get_internal_type() != "JSONField"
    }
    yield from compiler.apply_converters([list(row) for row in rows], converters)
