"""Tags of runs: what they may be, who changes them, and that the database holds the same rules."""

from functools import partial
from uuid import UUID

import pytest
from django.db import DatabaseError, IntegrityError, transaction
from django.http import QueryDict

from accounts.errors import Invalid, NotAllowed, NotFound, Refused
from accounts.models import AuditEvent
from console.lists.runs import RUNS
from console.lists.search import found
from runs.errors import TooManyTags
from runs.models import RunTag
from runs.selectors import tags_beginning, tags_of
from runs.states import RUN_TAGS
from runtime.loop import drive
from runtime.services import Started, StartRequest, Tagged, run_start, run_tag
from tests.engine.engine import Engine, people
from tests.engine.races import together
from tests.scripted import SCRIPT, done

MANY = [f"t{number}" for number in range(RUN_TAGS)]


@pytest.fixture
def run(engine: Engine) -> UUID:
    SCRIPT.tell(done())
    return engine.start()


def tag(engine: Engine, run: UUID, *add: str, remove: tuple[str, ...] = (), by: str = "otto") -> Tagged | Refused:
    return run_tag(actor=engine.person(by), run_id=run, add=add, remove=remove)


def begun(engine: Engine, *tags: str) -> Started | Refused:
    return run_start(actor=engine.person("olga"), wanted=StartRequest("told", {}, tags=tags))


def listed(engine: Engine, query: str) -> list[UUID]:
    asked = RUNS.asked(engine.person("vera"), QueryDict(query))
    assert not asked.errors, asked.errors
    return [row.id for row in asked.page()[0]]


def audited(run: UUID) -> list[dict[str, object]]:
    events = AuditEvent.objects.filter(object_id=str(run), action="run.tag").order_by("seq")
    return [{name: event.detail[name] for name in ("added", "removed")} for event in events]


def test_tags_come_and_go_and_each_change_is_audited_once(engine: Engine, run: UUID) -> None:
    assert tag(engine, run, "month-end", "desk:emea") == Tagged(run, ["desk:emea", "month-end"], True)
    assert tag(engine, run, "month-end") == Tagged(run, ["desk:emea", "month-end"], False)
    assert tag(engine, run, "q2", remove=("desk:emea", "never-had")) == Tagged(run, ["month-end", "q2"], True)
    assert audited(run) == [
        {"added": ["desk:emea", "month-end"], "removed": []},
        {"added": ["q2"], "removed": ["desk:emea"]},
    ]


def test_a_run_is_started_with_tags_and_they_stand_in_its_audit_event(engine: Engine) -> None:
    SCRIPT.tell(done())
    started = begun(engine, "b", "a", "b")
    assert isinstance(started, Started) and tags_of(started.run_id) == ["a", "b"]
    assert AuditEvent.objects.get(object_id=str(started.run_id), action="run.start").detail["tags"] == ["a", "b"]


@pytest.mark.parametrize("bad", ["", "Upper", "two words", "ü", "-first", "a" * 41, "a\n", "a\u200b", "tab\t"])
def test_what_is_no_tag_is_refused_and_names_its_field(engine: Engine, run: UUID, bad: str) -> None:
    outcome = tag(engine, run, "fine", bad)
    assert isinstance(outcome, Invalid) and outcome.facts["field"] == "add"
    assert isinstance(begun(engine, bad), Invalid)
    assert tags_of(run) == []
    with pytest.raises(IntegrityError, match=r"run_tag_form|value too long"), transaction.atomic():
        RunTag.objects.create(tenant=engine.tenant, run_id=run, tag=bad[:40] if len(bad) < 41 else "A" * 40, place=1)


def test_a_run_has_so_many_tags_and_no_more(engine: Engine, run: UUID) -> None:
    assert isinstance(tag(engine, run, *MANY), Tagged)
    assert tag(engine, run, "one-more") == TooManyTags({"limit": RUN_TAGS, "count": RUN_TAGS + 1})
    assert isinstance(tag(engine, run, "one-more", remove=("t0",)), Tagged)
    assert len(tags_of(run)) == RUN_TAGS
    assert isinstance(begun(engine, *MANY, "one-more"), TooManyTags)


def test_the_database_holds_their_number_their_tenant_and_that_none_changes(engine: Engine, run: UUID) -> None:
    tag(engine, run, "here")
    other = people("elsewhere")
    for tenant, name, place in ((engine.tenant, "b", RUN_TAGS + 1), (engine.tenant, "b", 1), (other, "b", 2)):
        with pytest.raises(IntegrityError):  # at its commit, for the tenant
            RunTag.objects.create(tenant=tenant, run_id=run, tag=name, place=place)
    with pytest.raises(DatabaseError, match="Cannot update"), transaction.atomic():
        RunTag.objects.update(tag="there")


def test_two_who_tag_one_run_at_once_lose_nothing_of_each_other(engine: Engine, run: UUID) -> None:
    acts = [partial(tag, engine, run, *MANY[start : start + 5]) for start in range(0, 20, 5)]
    assert all(isinstance(outcome, Tagged) for outcome in together(*acts))
    assert tags_of(run) == sorted(MANY)


def test_two_at_once_do_not_give_a_run_too_many(engine: Engine, run: UUID) -> None:
    tag(engine, run, *MANY[:-1])
    outcomes = together(partial(tag, engine, run, "left"), partial(tag, engine, run, "right"))
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Tagged", "TooManyTags"]
    assert len(tags_of(run)) == RUN_TAGS


def test_it_needs_the_permission_and_the_run(engine: Engine, run: UUID) -> None:
    assert isinstance(tag(engine, run, "x", by="vera"), NotAllowed)
    assert AuditEvent.objects.filter(action="run.tag.refused").exists()
    people("elsewhere")
    assert tags_of(run) == []
    with pytest.raises(NotFound):
        tag(engine, engine.tenant.id, "x")


def test_one_tag_can_not_come_and_go_at_once(engine: Engine, run: UUID) -> None:
    outcome = tag(engine, run, "x", remove=("x",))
    assert isinstance(outcome, Invalid) and outcome.facts["field"] == "remove"


def test_an_ended_run_is_tagged_too_and_what_goes_on_from_it_carries_its_tags(engine: Engine) -> None:
    SCRIPT.tell(done())
    run = engine.start()
    engine.stop(run)
    assert isinstance(tag(engine, run, "kept"), Tagged)
    SCRIPT.tell(done())
    continued = engine.carry_on(run)
    assert isinstance(continued, Started) and tags_of(continued.run_id) == ["kept"]
    drive(continued.run_id)


def test_runs_are_found_by_all_of_their_tags_in_the_list_and_by_a_beginning_in_the_search(engine: Engine) -> None:
    SCRIPT.tell(done(), done(), done())
    both, one, none = (begun(engine, *tags) for tags in (("emea", "q2"), ("emea",), ()))
    assert isinstance(both, Started) and isinstance(one, Started) and isinstance(none, Started)
    assert listed(engine, "tag=emea") == [one.run_id, both.run_id]
    assert listed(engine, "tag=emea&tag=q2") == listed(engine, "tag=q2, emea") == [both.run_id]
    assert listed(engine, "tag=nothing") == []
    vera = engine.person("vera")
    assert "tag" in RUNS.asked(vera, QueryDict("tag=EMEA")).errors
    assert tags_beginning(vera, "e", 10) == ["emea"] and tags_beginning(vera, "", 10) == ["emea", "q2"]
    assert [hit.title for group in found(vera, "em") if group.word == "Tags" for hit in group.hits] == ["emea"]
