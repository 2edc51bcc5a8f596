"""Rows of several questions in one statement, so that a page with many small tables asks once and not twenty times."""

from collections.abc import Iterator, Sequence
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet
from django.db.models.query import get_related_populators
from django.db.models.sql.compiler import SQLCompiler
from psycopg import Cursor


def together(*questions: QuerySet[Any]) -> list[list[Any]]:
    """The rows of each queryset, in the order given, in one statement.

    Takes querysets of models with filters, order, limit, defer and select_related, not prefetch_related and not values().
    """
    compilers = [question.query.get_compiler(connection=connection) for question in questions]
    texts = {place: text for place, compiler in enumerate(compilers) if (text := _text(compiler))}
    parts = [f"SELECT {place}, ROW(t.*) FROM ({text}) t" for place, (text, _) in texts.items()]  # noqa: S608
    found: list[list[Sequence[Any]]] = [[] for _ in questions]
    if parts:
        for place, row in _asked(
            "\nUNION ALL ".join(parts), [value for _, values in texts.values() for value in values]
        ):
            found[place].append(row)
    return [list(_read(compiler, rows)) if rows else [] for compiler, rows in zip(compilers, found, strict=True)]


def _text(compiler: SQLCompiler) -> tuple[str, Any] | None:
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
