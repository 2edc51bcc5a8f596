"""The pages that hand a run over and show where it comes from: complete without asking, bounded, and inert."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from accounts.keys import new_id
from checkpoints.models import Commitment
from console.pages.tree import NODES, tree_of
from runs.models import ControlRequest, Run
from tests.pages import story
from tests.pages.conftest import Member
from tests.pages.driven import HOSTILE, assert_inert, told, words
from tests.written import made

QUERIES = 12


def test_it_answers_what_a_new_operator_asks_first(mo: Member) -> None:
    """The eight questions of C-035: goal, constraints, assumptions, promises, effects, unknown calls, waits, reasons."""
    run = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=18))[0].run
    for kind, text in (("CONSTRAINT", "Only the two files."), ("ASSUMPTION", "Cash does not count.")):
        Commitment.objects.create(
            tenant=mo.tenant,
            run=run,
            kind=kind,
            statement=text,
            source_kind="PERSON",
            source_ref="person:j.lind",
            source_version="1",
            accepted_revision=1,
        )
    ControlRequest.objects.create(
        tenant=mo.tenant, run=run, kind="PAUSE", requested_by="person:mo.okafor", reason="Shift ends at seven."
    )
    said = words(mo.get(f"/runs/{run.id}/handover/"))
    for fact in (
        "Compare the holdings of ARKK and ARKW",
        "Only the two files.",
        "Cash does not count.",
        "Publish the report on the wiki.",
        "Approve or reject publish_report/overlap-v2",
        "left",
        "send_answer_part/v1",
        "Every call that was sent has an outcome.",
        "Shift ends at seven.",
        "Rejected, or not decided by",
        "model calls",
    ):
        assert fact in said, fact


def test_what_nobody_knows_and_what_was_decided_is_told(mo: Member) -> None:
    unknown = story.unknown(mo.tenant, timezone.now() - timedelta(minutes=18))[0].run
    said = words(mo.get(f"/runs/{unknown.id}/handover/"))
    assert "publish_report/overlap-v2 Nobody knows whether it happened." in said
    done = story.completed(mo.tenant, timezone.now() - timedelta(minutes=18)).run
    said = words(mo.get(f"/runs/{done.id}/handover/"))
    assert "The wiki page shows version 2, 08:14." in said
    assert "Nothing. The run has ended" in said


@pytest.mark.parametrize("path", ["handover", "lineage"])
def test_what_was_written_is_inert_and_the_page_is_theirs(mo: Member, stranger: Member, path: str) -> None:
    run = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=18), HOSTILE)[0].run
    assert_inert(mo.get(f"/runs/{run.id}/{path}/"))
    assert stranger.client.get(f"/runs/{run.id}/{path}/").status_code == 404


def test_queries_do_not_grow_with_what_people_did(
    mo: Member, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    run = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=18))[0].run
    for number in range(40):
        made(
            ControlRequest,
            tenant=mo.tenant,
            run=run,
            kind="PAUSE",
            requested_by=f"person:p{number}",
            reason=f"Reason {number}.",
            status="SETTLED",
            accepted_at=timezone.now(),
            settled_at=timezone.now(),
        )
    with django_assert_max_num_queries(QUERIES):
        said = words(mo.get(f"/runs/{run.id}/handover/"))
    assert said.count("asked for a pause") == 12
    assert "12+. The newest first" in said and "The first 12 are shown. There are more." in said


def grown(root: Run, **origin: object) -> Run:
    """A run that comes from another one."""
    run = Run(
        tenant=root.tenant,
        thread=root.thread,
        agent_version=root.agent_version,
        lineage_id=root.lineage_id,
        title=f"From {root.title[:40]}",
        admission_key=new_id().hex,
        created_by=root.created_by,
        status="QUEUED",
        **origin,
    )
    run.root_run_id = root.root_run_id if origin["origin"] == "CHILD" else run.id
    run.save(force_insert=True)
    Run.objects.filter(id=run.id).update(status="RUNNING")
    Run.objects.filter(id=run.id).update(status="COMPLETED", ended_at=timezone.now())
    run.refresh_from_db()
    return run


def forked(source: Run) -> Run:
    return grown(source, origin="FORKED", forked_from=source, forked_from_revision=2)


def test_the_tree_shows_continuations_forks_and_children_and_marks_this_run(mo: Member) -> None:
    root = story.completed(mo.tenant, timezone.now() - timedelta(minutes=18)).run
    next_one = grown(root, origin="CONTINUED", continued_from=root)
    fork, child = forked(root), grown(root, origin="CHILD", parent_run=root)
    (first, second) = tree_of([root, next_one, fork, child], fork.id)
    assert (first.run, second.run) == (root, next_one)
    assert [(node.run, node.level, node.current) for node in first.below] == [(fork, 2, True), (child, 2, False)]
    html = mo.get(f"/runs/{fork.id}/lineage/")
    said = words(html)
    assert "4 runs that come from one another" in said
    assert "continues the one before" in said and "forked at revision 2" in said and "child, completed" in said
    assert html.count('aria-current="true"') == 1
    assert html.count("<ul") == html.count("</ul>") and len(re.findall("<li[ >]", html)) == html.count("</li>")


def test_two_hundred_runs_each_a_fork_of_the_one_before_are_a_tree(
    mo: Member, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    run = story.completed(mo.tenant, timezone.now() - timedelta(minutes=18)).run
    for _ in range(NODES + 2):
        run = forked(run)
    with django_assert_max_num_queries(12):
        html = mo.get(f"/runs/{run.id}/lineage/")
    assert html.count("data-node ") == NODES
    assert "There are more; the oldest 200 are shown." in words(html)


def test_a_replay_is_stepped_through_one_at_a_time(ann: Member) -> None:
    run = told("published")
    first, second = (ann.get(f"/runs/{run.id}/replay/{query}") for query in ("", "?step=2"))
    assert "Step 1 of" in words(first) and "Step 2 of" in words(second)
    assert 'data-key="l"' in first and 'data-key="h"' not in first
    assert 'href="?step=1" data-key="h"' in second and 'href="?step=3" data-key="l"' in second
    whole = ann.get(f"/runs/{run.id}/replay/?step=all")
    assert whole.count('<section class="sect">') > 5 > first.count('<section class="sect">')
    last = words(ann.get(f"/runs/{run.id}/replay/?step=99999"))
    assert "Step 1 of" not in last
    for bad in ("?step=x", "?step=-3", "?step=%00", "?step=0"):
        assert "Step 1 of" in words(ann.get(f"/runs/{run.id}/replay/{bad}"))


def test_a_fork_says_how_many_calls_it_keeps_reuses_and_repeats(ann: Member) -> None:
    run = told("published")
    said = words(ann.get(f"/runs/{run.id}/checkpoints/4/fork/"))
    assert "How many" in said and "Kept: its stored result is what the new run begins with" in said
