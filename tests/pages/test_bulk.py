"""One act on all runs of a filter: exactly the set that was shown, each run by itself, whoever is cut off."""

import re
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import DatabaseError, transaction
from django.utils import timezone

from accounts.models import AuditEvent, Membership
from accounts.states import Role
from runs.models import BulkItem, ControlRequest, Run
from runs.selectors import bulk_items_pending
from runs.states import OPEN_CONTROL
from runtime.services import bulk, bulk_item_do
from runtime.sweep import STEPS
from tests.pages import story
from tests.pages.conftest import Member, member
from tests.pages.rows import Story


def some(mo: Member, count: int, title: str = "Pair") -> list[Run]:
    """Queued runs, the newest first."""
    now = timezone.now()
    told = [Story(mo.tenant, now - timedelta(minutes=n), f"{title} {n}") for n in range(count)]
    for one in told:
        one.save(0, "READY_TO_DECIDE", 0, "INIT")
    return [one.run for one in told]


def shown(mo: Member, query: str, act: str = "STOP") -> dict[str, Any]:
    """The form of a preview as it would be sent."""
    html = mo.get(f"/bulks/new/?{urlencode({'act': act, 'query': query})}")
    fields = {name: re.search(rf'name="{name}" value="([^"]*)"', html) for name in ("digest", "count")}
    return {"act": act, "query": query} | {name: found[1] for name, found in fields.items() if found}


def test_a_filter_is_never_cut_since_the_rest_of_it_would_find_others(mo: Member) -> None:
    """The end of it is what leaves all but one out."""
    runs = some(mo, 2)
    query = "&".join(["q=" + "x" * 190] * 22) + f"&q={runs[0].title.replace(' ', '+')}"
    html = mo.client.post("/bulks/new/", shown(mo, query) | {"reason": "Enough."}).content.decode()
    assert f"{len(query)} characters, at most 4000" in html and not ControlRequest.objects.exists()
    assert shown(mo, query)["count"] == "1"


def statuses(runs: list[Run]) -> list[str]:
    found = Run.objects.in_bulk([run.id for run in runs])
    return [found[run.id].status for run in runs]


def test_a_preview_counts_names_and_leaves_out_what_the_act_means_nothing_to(mo: Member) -> None:
    some(mo, 25)
    ended = some(mo, 2, "Over")
    for run in ended:
        Run.objects.filter(id=run.id).update(status="CANCELLED", ended_at=timezone.now())
    html = mo.get("/bulks/new/?act=STOP&query=")
    assert "Stop 25 runs" in html and "2 more pass the filter" in html
    assert html.count("<tr data-row>") == 20 and "and 5 more" in html
    assert "No run passes the filter that this would mean anything to." in mo.get("/bulks/new/?act=RESUME&query=")
    assert "The filter can’t be read." in mo.get("/bulks/new/?act=STOP&query=status%3DBROKEN")


def test_all_runs_of_the_filter_are_stopped_and_each_says_so(mo: Member) -> None:
    runs, others = some(mo, 3), some(mo, 2, "Other")
    answer = mo.post("/bulks/new/", **shown(mo, "q=Pair"), reason="The desk is closed.")
    assert answer.status == 302
    assert statuses(runs) == ["CANCELLED"] * 3 and statuses(others) == ["QUEUED"] * 2
    html = mo.get(answer.location)
    assert "<b>3</b> done, <b>0</b> refused. It is over." in html
    assert ControlRequest.objects.filter(reason="The desk is closed.").count() == 3
    assert AuditEvent.objects.filter(action="bulk.accept", detail__runs=3).count() == 1
    assert answer.location.split("/")[2] in mo.get("/bulks/")


def test_another_set_than_was_shown_is_refused_whole(mo: Member) -> None:
    runs = some(mo, 2)
    form = shown(mo, "q=Pair")
    late = some(mo, 1)
    answer = mo.post("/bulks/new/", **form, reason="Enough.")
    assert answer.status == 409 and "2 were shown, and there are 3" in answer.html
    assert statuses([*runs, *late]) == ["QUEUED"] * 3
    assert AuditEvent.objects.filter(action="bulk.accept.refused", detail__code="BULK_MOVED").count() == 1


def test_a_run_that_refuses_keeps_no_other_one(mo: Member) -> None:
    runs = some(mo, 3)
    form = shown(mo, "q=Pair", "PAUSE")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "AT_ONCE", 0.0)
        answer = mo.post("/bulks/new/", **form, reason="A look first.")
    Run.objects.filter(id=runs[1].id).update(status="CANCELLED", ended_at=timezone.now())
    for unit in STEPS["bulks"]():
        unit.act()
    assert [item.status for item in BulkItem.objects.order_by("place")] == ["DONE", "REFUSED", "DONE"]
    assert "RUN_ENDED" in mo.get(answer.location)
    assert statuses(runs) == ["HELD", "CANCELLED", "HELD"]


def test_what_the_request_does_not_get_to_is_done_by_the_sweep_once(
    mo: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = some(mo, 4)
    monkeypatch.setattr(bulk, "AT_ONCE", 0.0)
    answer = mo.post("/bulks/new/", **shown(mo, "q=Pair"), reason="Enough.")
    assert "<b>4</b> to go. It goes on by itself." in mo.get(answer.location)
    units = list(STEPS["bulks"]())
    for unit in [*units, *units]:
        unit.act()
    assert statuses(runs) == ["CANCELLED"] * 4
    assert ControlRequest.objects.count() == 4
    assert list(STEPS["bulks"]()) == []


def test_an_item_that_somebody_took_is_left_to_them_for_a_minute(mo: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    (run,) = some(mo, 1)
    monkeypatch.setattr(bulk, "AT_ONCE", 0.0)
    mo.post("/bulks/new/", **shown(mo, "q=Pair"), reason="Enough.")
    ((item, _),) = bulk_items_pending(limit=9)
    BulkItem.objects.filter(id=item).update(taken_at=timezone.now())
    bulk_item_do(item)
    assert statuses([run]) == ["QUEUED"] and bulk_items_pending(limit=9) == []
    BulkItem.objects.filter(id=item).update(taken_at=timezone.now() - timedelta(seconds=61))
    bulk_item_do(item)
    assert statuses([run]) == ["CANCELLED"]


def test_an_item_whose_first_try_was_cut_off_says_that_it_may_have_been_done_then(
    mo: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process took the item, stopped the run and died; the sweep asks again, and the run has ended."""
    (run,) = some(mo, 1)
    monkeypatch.setattr(bulk, "AT_ONCE", 0.0)
    answer = mo.post("/bulks/new/", **shown(mo, "q=Pair"), reason="Enough.")
    BulkItem.objects.update(taken_at=timezone.now() - timedelta(seconds=61))
    mo.post(f"/runs/{run.id}/stop/", reason="Enough.")
    bulk_item_do(BulkItem.objects.get().id)
    assert (statuses([run]), BulkItem.objects.get().code) == (["CANCELLED"], "RUN_ENDED")
    assert "A first try was cut off, and may have done it. Asked for once more:" in mo.get(answer.location)


def test_who_may_not_stop_any_more_has_nothing_stopped(mo: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    (run,) = some(mo, 1)
    monkeypatch.setattr(bulk, "AT_ONCE", 0.0)
    mo.post("/bulks/new/", **shown(mo, "q=Pair"), reason="Enough.")
    Membership.objects.filter(user__username=mo.name).update(roles=["viewer"])
    for unit in STEPS["bulks"]():
        unit.act()
    assert statuses([run]) == ["QUEUED"]
    assert BulkItem.objects.get().code == "NOT_ALLOWED"


def test_held_runs_are_asked_to_try_again(mo: Member) -> None:
    held = story.held(mo.tenant, timezone.now() - timedelta(minutes=9), "RESUME_REFUSED", "x", "SCHEMA")
    answer = mo.post("/bulks/new/", **shown(mo, "status=HELD", "RESUME"), reason="It is put right.")
    assert answer.status == 302 and BulkItem.objects.get().status == "DONE"
    assert Run.objects.get(id=held.run.id).status == "QUEUED"


def test_a_pause_that_is_asked_for_after_the_preview_or_after_the_act_is_not_taken_back(
    mo: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep may come to a run long after somebody asked for it to go on."""
    now = timezone.now()
    first, second = (story.held(mo.tenant, now - timedelta(minutes=9), "RESUME_REFUSED", n, "SCHEMA").run for n in "ab")
    form = shown(mo, "status=HELD", "RESUME")
    mo.post(f"/runs/{first.id}/pause/", reason="It pays twice.")
    assert mo.post("/bulks/new/", **form, reason="It is put right.").status == 409
    monkeypatch.setattr(bulk, "AT_ONCE", 0.0)
    assert mo.post("/bulks/new/", **shown(mo, "q=b", "RESUME"), reason="It is put right.").status == 302
    mo.post(f"/runs/{second.id}/pause/", reason="It pays twice.")
    for unit in STEPS["bulks"]():
        unit.act()
    assert (BulkItem.objects.get().status, BulkItem.objects.get().code) == ("REFUSED", "PAUSED_SINCE")
    assert {one.status for one in ControlRequest.objects.all()} <= OPEN_CONTROL


def test_a_pause_that_was_shown_is_taken_back_with_the_others(mo: Member) -> None:
    (run,) = some(mo, 1)
    mo.post(f"/runs/{run.id}/pause/", reason="A look first.")
    assert mo.post("/bulks/new/", **shown(mo, "status=HELD", "RESUME"), reason="Looked at.").status == 302
    assert (statuses([run]), ControlRequest.objects.get().status) == (["QUEUED"], "SETTLED")


def test_a_viewer_is_refused_and_a_stranger_finds_nothing(mo: Member, stranger: Member) -> None:
    runs = some(mo, 1)
    form = shown(mo, "q=Pair")
    viewer = member("seen", "vi", frozenset({Role.VIEWER}))
    assert viewer.post("/bulks/new/", **form, reason="Enough.").status == 403
    assert stranger.post("/bulks/new/", **form, reason="Enough.").status == 409
    answer = mo.post("/bulks/new/", **form, reason="Enough.")
    assert stranger.client.get(answer.location).status_code == 404
    assert statuses(runs) == ["CANCELLED"]


def test_the_database_keeps_what_was_asked_for(mo: Member) -> None:
    some(mo, 1)
    mo.post("/bulks/new/", **shown(mo, "q=Pair"), reason="Enough.")
    item = BulkItem.objects.get()
    for change in ({"status": "PENDING", "closed_at": None}, {"place": 7}):
        with pytest.raises(DatabaseError), transaction.atomic():
            BulkItem.objects.filter(id=item.id).update(**change)
    with pytest.raises(DatabaseError), transaction.atomic():
        item.bulk.delete()
