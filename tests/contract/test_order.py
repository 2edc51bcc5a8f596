"""What is listed comes in one order, page by page, each once, whatever is written meanwhile."""

from typing import Any

import pytest
from django.db import transaction
from rest_framework.serializers import ValidationError

from approvals.selectors import newest_waits
from checkpoints.models import Checkpoint, Head
from checkpoints.selectors import commitments_of, obligations_of
from console.api.paging import Order, page_of
from receipts.models import Attempt, ToolCall
from receipts.selectors import calls_of, proposals_waiting, sealed_turns
from runs.models import Run, RunTransition
from runs.selectors import messages_of, runs_to_look_at
from runs.services import message_append
from tests.contract.store import Store, Worker, stored
from tests.engine.engine import sql

REVISIONS = Order(("revision",), descending=False)
NEWEST = Order(("created_at", "id"))


def pages(rows: Any, order: Order, limit: int, *, between: Any = lambda: None, listed: str = "rows") -> list[list[Any]]:
    """Every page of a list. `between` is done before each page but the first."""
    found: list[list[Any]] = []
    query: dict[str, Any] = {"limit": limit}
    tenant_id = Run.objects.values_list("tenant_id", flat=True).first()
    assert tenant_id is not None
    while True:
        shown, cursor = page_of(rows, order, query, listed=listed, tenant_id=tenant_id)
        found.append(shown)
        if cursor is None:
            return found
        query["cursor"] = cursor
        between()


def revisions(worker: Worker, count: int) -> Any:
    for _ in range(count - 1):
        worker.save()
    return Checkpoint.objects.filter(run=worker.run)


# ── revisions ──


def test_revisions_are_numbered_without_a_gap(worker: Worker) -> None:
    rows = revisions(worker, 6)
    assert sorted(rows.values_list("revision", flat=True)) == [1, 2, 3, 4, 5, 6]


def test_the_head_is_the_newest_revision(worker: Worker) -> None:
    revisions(worker, 4)
    assert Head.objects.get(run=worker.run).revision == 4


def test_each_revision_is_chained_to_the_one_before(worker: Worker) -> None:
    rows = list(revisions(worker, 5).order_by("revision"))
    assert [row.parent_digest for row in rows] == [None, *(row.digest for row in rows[:-1])]


def test_revisions_are_never_older_than_the_one_before(worker: Worker) -> None:
    times = list(revisions(worker, 5).order_by("revision").values_list("created_at", flat=True))
    assert times == sorted(times)


def test_a_page_holds_at_most_its_limit(worker: Worker) -> None:
    rows = revisions(worker, 5)
    assert [[row.revision for row in page] for page in pages(rows, REVISIONS, 2)] == [[1, 2], [3, 4], [5]]


@pytest.mark.parametrize("limit", [1, 4, 5, 6, 200])
def test_pages_of_any_size_give_the_same_rows(worker: Worker, limit: int) -> None:
    rows = revisions(worker, 5)
    assert [row.revision for page in pages(rows, REVISIONS, limit) for row in page] == [1, 2, 3, 4, 5]


def test_a_full_last_page_has_no_successor(worker: Worker) -> None:
    rows = revisions(worker, 4)
    assert len(pages(rows, REVISIONS, 2)) == 2


def test_a_list_without_rows_is_one_empty_page(worker: Worker) -> None:
    assert pages(Checkpoint.objects.filter(run=worker.run, revision=99), REVISIONS, 2) == [[]]


def test_what_is_saved_between_two_pages_comes_at_the_end_and_moves_nothing(worker: Worker) -> None:
    rows = revisions(worker, 4)
    saved_once = iter([worker.save])

    def save() -> None:
        next(saved_once, lambda: None)()

    found = [row.revision for page in pages(rows, REVISIONS, 2, between=save) for row in page]
    assert found == [1, 2, 3, 4, 5]


# ── runs ──


def test_runs_of_one_instant_are_listed_once_each_under_inserts(store: Store) -> None:
    """B76: the cursor is the whole sort key, so equal times lose nobody."""
    runs = [store.admit() for _ in range(7)]
    moment = sql("SELECT clock_timestamp()")[0][0]
    for run in runs:
        sql("UPDATE runs_run SET created_at = %s WHERE id = %s", moment, run.id)
    rows = Run.objects.filter(id__in=[run.id for run in runs])
    found = [row.id for page in pages(rows, NEWEST, 2, between=store.admit) for row in page]
    assert found == sorted((run.id for run in runs), reverse=True)


def test_runs_are_listed_the_newest_first(store: Store) -> None:
    runs = [store.admit() for _ in range(3)]
    rows = Run.objects.filter(id__in=[run.id for run in runs])
    assert [row.id for page in pages(rows, NEWEST, 2) for row in page] == [run.id for run in reversed(runs)]


def test_a_run_that_leaves_a_list_between_two_pages_hides_no_other(store: Store) -> None:
    runs = [store.admit() for _ in range(5)]
    rows = Run.objects.filter(id__in=[run.id for run in runs], status="QUEUED")
    gone = iter([runs[4].id])

    def start_the_one_that_was_shown() -> None:
        sql("UPDATE runs_run SET status = 'RUNNING' WHERE id = %s", next(gone, None))

    found = [row.id for page in pages(rows, NEWEST, 2, between=start_the_one_that_was_shown) for row in page]
    assert found == [run.id for run in reversed(runs)]


@pytest.mark.parametrize("cursor", ["", "x", "W10:abc", "1'; DROP TABLE runs_run; --", "\u0000"])
def test_a_cursor_that_was_not_given_out_is_refused(worker: Worker, cursor: str) -> None:
    query = {"limit": 2, "cursor": cursor}
    with pytest.raises(ValidationError):
        page_of(Checkpoint.objects.all(), REVISIONS, query, listed="rows", tenant_id=worker.run.tenant_id)


def test_a_cursor_of_another_list_tenant_or_filter_is_refused(store: Store, foreign: Store, worker: Worker) -> None:
    rows = revisions(worker, 3)
    given = {"limit": 1, "phase": "READY_TO_DECIDE"}
    _, cursor = page_of(rows, REVISIONS, given, listed="a", tenant_id=store.tenant.id)
    with_cursor = given | {"cursor": cursor}
    assert page_of(rows, REVISIONS, with_cursor, listed="a", tenant_id=store.tenant.id)[0][0].revision == 2
    for listed, tenant_id, query in (
        ("b", store.tenant.id, with_cursor),
        ("a", foreign.tenant.id, with_cursor),
        ("a", store.tenant.id, with_cursor | {"phase": "FINISHED"}),
    ):
        with pytest.raises(ValidationError):
            page_of(rows, REVISIONS, query, listed=listed, tenant_id=tenant_id)


# ── turns, calls, messages ──


def test_turns_come_in_the_order_in_which_they_were_asked(worker: Worker) -> None:
    for _ in range(4):
        worker.turn_with()
        worker.save()
    turns = sealed_turns(tenant_id=worker.run.tenant_id, run_id=worker.run.id)
    assert [turn.turn_no for turn in turns] == [1, 2, 3, 4]


def test_turns_can_be_read_up_to_one(worker: Worker) -> None:
    for _ in range(3):
        worker.turn_with()
        worker.save()
    turns = sealed_turns(tenant_id=worker.run.tenant_id, run_id=worker.run.id, upto=2)
    assert [turn.turn_no for turn in turns] == [1, 2]


def test_an_open_turn_is_not_among_the_sealed_ones(worker: Worker) -> None:
    worker.ask()
    assert sealed_turns(tenant_id=worker.run.tenant_id, run_id=worker.run.id) == []


def test_proposals_keep_the_order_in_which_the_model_made_them(worker: Worker) -> None:
    calls = [worker.new_call(label) for label in "cab"]
    worker.turn_with(*calls)
    (turn,) = sealed_turns(tenant_id=worker.run.tenant_id, run_id=worker.run.id)
    assert [proposal.tool_call_id for proposal in turn.proposals] == [call.id for call in calls]
    assert [proposal.ordinal for proposal in turn.proposals] == [1, 2, 3]
    assert proposals_waiting(call_ids=[call.id for call in calls]) == [(c.id, 1, n) for n, c in enumerate(calls, 1)]


def test_calls_are_numbered_in_their_run(worker: Worker) -> None:
    worker.turn_with(worker.new_call("a"), worker.new_call("b"))
    ordinals = ToolCall.objects.filter(run=worker.run).order_by("ordinal").values_list("ordinal", "step_name")
    assert list(ordinals) == [(1, "tool/a"), (2, "tool/b")]


def test_calls_are_found_by_id_in_no_order_of_their_own(worker: Worker) -> None:
    a, b = worker.new_call("a"), worker.new_call("b")
    worker.turn_with(a, b)
    assert set(calls_of(ids=[b.id, a.id])) == {a.id, b.id}
    assert calls_of(ids=[]) == {}


def test_attempts_are_numbered_from_one_without_a_gap(worker: Worker) -> None:
    call = worker.new_call()
    worker.turn_with(call)
    for _ in range(3):
        sql(
            "UPDATE receipts_attempt SET outcome = 'NO_RESPONSE', finished_at = clock_timestamp() WHERE outcome IS NULL"
        )
        sql("UPDATE receipts_toolcall SET status = 'UNCERTAIN' WHERE id = %s", call.id)
        assert worker.dispatch_again(call).started == 1
    assert list(Attempt.objects.filter(tool_call_id=call.id).order_by("id").values_list("attempt_no", flat=True)) == [
        1,
        2,
        3,
        4,
    ]
    assert stored(call).attempts == 4


def test_results_are_referred_to_in_the_order_in_which_they_were_taken_in(worker: Worker) -> None:
    a, b = worker.new_call("a"), worker.new_call("b")
    worker.turn_with(a, b)
    worker.record_task(b, {"v": "b"})
    now = worker.position.snapshot
    refs = (*now.results, worker.ref(a, {"v": "a"}), worker.ref(b, {"v": "b"}))
    worker.record_task(a, {"v": "a"})
    worker.save("TOOL_RESULT_RECORDED", results=refs)
    assert [ref.call for ref in worker.position.snapshot.results] == [a.id, b.id]


def test_messages_are_numbered_in_their_thread(store: Store) -> None:
    run = store.admit()
    for n in range(2, 5):
        with transaction.atomic():
            assert message_append(run=run, role="notice", text=f"n{n}", after_turn=n) == n
    assert [text for _, text in messages_of(run)] == ["Do it.", "n2", "n3", "n4"]
    assert [text for _, text in messages_of(run, upto=2)] == ["Do it.", "n2"]


def test_promises_and_terms_come_in_the_order_in_which_they_were_given(store: Store) -> None:
    given = {f"tool/{label}": f"Do {label}." for label in "zax"}
    run = store.admit(obligations=given)
    assert [row.step_name for row in obligations_of(run.id)] == list(given)
    assert commitments_of(run.id) == []


def test_transitions_form_one_chain(worker: Worker) -> None:
    rows = RunTransition.objects.filter(run=worker.run).order_by("id").values_list("from_status", "to_status")
    assert list(rows) == [(None, "QUEUED"), ("QUEUED", "RUNNING")]


def test_the_newest_wait_of_a_call_is_the_one_that_counts(worker: Worker) -> None:
    call = worker.new_call(effect="NON_IDEMPOTENT", send=False)
    worker.turn_with(call)
    old = worker.open_wait(call)
    sql("UPDATE approvals_wait SET status = 'SUPERSEDED' WHERE id = %s", old.id)
    new = worker.open_wait(call)
    assert newest_waits(call_ids=[call.id])[call.id].id == new.id


def test_the_sweep_lists_each_run_once_and_no_more_than_it_is_asked_for(store: Store) -> None:
    runs = {store.admit().id for _ in range(3)}
    found = list(runs_to_look_at(limit=10_000))
    assert runs <= set(found)
    assert len(found) == len(set(found))
    assert len(runs_to_look_at(limit=2)) == 2
