"""Several questions in one statement give the rows that each of them gives alone."""

from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from accounts.statements import together
from approvals.models import Wait
from checkpoints.models import Checkpoint
from receipts.models import Attempt, ReportVersion
from runs.models import Budget, Refusal, RunTransition
from tests.pages import story
from tests.pages.conftest import Member


def fields(row: Any) -> dict[str, Any]:
    """What a row holds, and what the rows that came with it hold."""
    near = {name: fields(other) for name, other in row._state.fields_cache.items() if other is not None}
    held = {name: value for name, value in row.__dict__.items() if name != "_state"}
    return {name: bytes(value) if isinstance(value, memoryview) else value for name, value in held.items()} | near


def test_rows_are_the_same_as_asked_one_by_one(mo: Member, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    run = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=18))[0].run
    questions: list[QuerySet[Any]] = [
        RunTransition.objects.filter(run=run).order_by("-at", "-pk")[:2],
        Checkpoint.objects.filter(run=run).defer("body").order_by("revision"),
        Attempt.objects.filter(tool_call__run=run)
        .select_related("tool_call", "model_call")
        .defer("tool_call__args")
        .order_by("dispatched_at"),
        Wait.objects.filter(run=run).select_related("tool_call", "decision").defer("tool_call__args"),
        Refusal.objects.filter(run=run),
        ReportVersion.objects.filter(run=run).order_by("version_no"),
        Budget.objects.filter(run=run).order_by("unit"),
        Refusal.objects.filter(run=run, kind="BUDGET"),
    ]
    with django_assert_num_queries(1):
        found = together(*questions)
    for rows, question in zip(found, questions, strict=True):
        assert [fields(row) for row in rows] == [fields(row) for row in question]
    assert found[-1] == []
    assert all(found[:-1])
