"""What follows when a save does not come off, whoever saves and why: the whole table of entries by outcomes (A-149).

Different callers need different proof. A snapshot after a confirmed effect may be missing; a wait, a turn and a finish may
not rest on one that is; a stop is closed without it; an act of a person is refused with it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest
from django.db.utils import OperationalError

from accounts.errors import Refused
from checkpoints.envelope import Snapshot, migration
from checkpoints.errors import GoalUnchanged, NothingToMigrate, SnapshotRefused
from checkpoints.models import Checkpoint, SaveAttempt
from checkpoints.services import prepare
from checkpoints.statements import Candidate, Prepared
from checkpoints.states import NotSaved, Phase, Trigger
from console import settings_test
from runs.errors import NothingToPin
from runs.models import Run
from runtime.contracts import ContextOverflow, ToolOutcome
from runtime.loop import drive
from runtime.services import GoalRevised, Started, StartRequest, Upgraded, run_start
from tests.agents import Told
from tests.engine.engine import Engine, added, counts, head_of, lease_of, open_wait, run_now
from tests.engine.proxy import Lost, Match, Proxy, commit, proxied, statement, through
from tests.engine.test_upgrade import in_older_format, to_format_1
from tests.scenarios.invariants import broken_invariants
from tests.scripted import SCRIPT, calls, done

MODULES = ("runtime.session", "runtime.ending", "runtime.services.goal", "runtime.services.upgrade")
SAVERS = (*(f"{module}.prepare" for module in MODULES), "checkpoints.services.save.prepare")


class Came(StrEnum):
    """How a save comes out."""

    SAVED = "it is acknowledged"
    REFUSED = "it is refused before any statement"
    CONFLICT = "the head is not the one that it continues"
    UNKNOWN_DONE = "the answer is lost, and it is there"
    UNKNOWN_NOT = "the answer is lost, and it is not there"


UNKNOWN: dict[Came, Lost] = {Came.UNKNOWN_DONE: "answer", Came.UNKNOWN_NOT: "request"}


class Then(StrEnum):
    """What is decided."""

    GOES_ON = "the run goes on"
    ALONE = "the result is stored alone, and the run goes on"
    ANEW = "the run is read anew from its head, and goes on"
    LOOKED_UP = "the save is looked up, and the run goes on"
    HELD = "the run is held, and goes on once a person asks for it"
    STOPPED = "the run is stopped"
    NO_ACT = "the act is refused, and nothing of it stays"
    ERROR = "the error reaches the person, and asking again tells what is there"


Act = Callable[[Engine, pytest.MonkeyPatch], Any]


def nothing(engine: Engine, patch: pytest.MonkeyPatch) -> None:
    """Nothing comes before this save."""


@dataclass(frozen=True)
class Entry:
    """Who saves: by which trigger, to which phase where that tells it apart, and with which last message to the database.

    `lead` brings a run to right before the save, and `act` does what saves. `by_person`: it is not a worker.
    """

    trigger: Trigger
    act: Act
    phase: Phase | None = None
    match: Match = commit
    lead: Act = nothing
    by_person: bool = False
    lost_tells: tuple[type, type] | None = None  # what asking again gives where it is there, and where it is not


def driven(*turns: Any) -> Act:
    """Drive a new run through these turns."""

    def act(engine: Engine, patch: pytest.MonkeyPatch) -> UUID:
        SCRIPT.tell(*turns)
        run_id = engine.start()
        drive(run_id)
        return run_id

    return act


def stopped(engine: Engine, patch: pytest.MonkeyPatch) -> UUID:
    def stop_then(context: Any) -> ToolOutcome:
        engine.stop(context.run_id)
        return ToolOutcome({})

    SCRIPT.do("a", stop_then)
    return driven(calls(("look", "a")), calls(("look", "b")))(engine, patch)  # type: ignore[no-any-return]


def started(engine: Engine, patch: pytest.MonkeyPatch) -> Any:
    return run_start(actor=engine.person("olga"), wanted=StartRequest("told", {}, key="once"))


def waiting(engine: Engine, patch: pytest.MonkeyPatch) -> None:
    engine.run(calls(("once", "a")), done())


def older(engine: Engine, patch: pytest.MonkeyPatch) -> None:
    patch.setitem(migration.STEPS, 0, to_format_1)
    in_older_format(engine.run(calls(("once", "a")), done()))


def deployed(engine: Engine, patch: pytest.MonkeyPatch) -> None:
    waiting(engine, patch)
    patch.setattr(Told, "spec", replace(Told.spec, version="2"))


def the_run() -> UUID:
    run_id: UUID = Run.objects.get().id
    return run_id


def revised(engine: Engine, patch: pytest.MonkeyPatch) -> Any:
    return engine.revise(the_run(), "Do it in French.")


def migrated(engine: Engine, patch: pytest.MonkeyPatch) -> Any:
    return engine.migrate(the_run())


def pinned_anew(engine: Engine, patch: pytest.MonkeyPatch) -> Any:
    return engine.repin(the_run())


READ, MARK = calls(("look", "a")), calls(("note", "a"))
LONG = ToolOutcome({"text": "x" * 1000})


def too_long(engine: Engine, patch: pytest.MonkeyPatch) -> UUID:
    SCRIPT.do("a", LONG)
    SCRIPT.do("b", LONG)
    turns = (READ, calls(("look", "b")), [ContextOverflow("too long"), ContextOverflow("too long"), done()])
    return driven(*turns)(engine, patch)  # type: ignore[no-any-return]


ENTRIES: dict[str, Entry] = {
    "admission": Entry(Trigger.INIT, started, by_person=True, lost_tells=(Started, Started)),
    "a turn with its decision": Entry(Trigger.CURSOR, driven(READ), Phase.AWAITING_TOOL_RESULT, statement),
    "a wait": Entry(Trigger.CURSOR, driven(calls(("once", "a"))), Phase.AWAITING_APPROVAL),
    "after an effect": Entry(Trigger.AFTER_EFFECT, driven(MARK, calls(("look", "b")))),
    "a compaction": Entry(Trigger.COMPACTION, too_long),
    "a finish": Entry(Trigger.CLOSING, driven(READ), Phase.FINISHED),
    "a stop": Entry(Trigger.CLOSING, stopped, Phase.STOPPED),
    "a goal revised": Entry(
        Trigger.INTENT,
        revised,
        lead=waiting,
        by_person=True,
        lost_tells=(GoalUnchanged, GoalRevised),
    ),
    "a migration": Entry(
        Trigger.MIGRATION,
        migrated,
        lead=older,
        by_person=True,
        lost_tells=(NothingToMigrate, Upgraded),
    ),
    "a new pin": Entry(
        Trigger.REPIN,
        pinned_anew,
        lead=deployed,
        by_person=True,
        lost_tells=(NothingToPin, Upgraded),
    ),
}

NEVER: Then | None = None  # no head exists before an admission, so nothing can be in conflict with it
TABLE: dict[str, dict[Came, Then | None]] = {
    entry: dict(zip(Came, decided, strict=True))
    for entry, decided in {
        "admission": (Then.GOES_ON, Then.NO_ACT, NEVER, Then.ERROR, Then.ERROR),
        "a turn with its decision": (Then.GOES_ON, Then.HELD, Then.ANEW, Then.LOOKED_UP, Then.LOOKED_UP),
        "a wait": (Then.GOES_ON, Then.HELD, Then.ANEW, Then.LOOKED_UP, Then.LOOKED_UP),
        "after an effect": (Then.GOES_ON, Then.ALONE, Then.ALONE, Then.LOOKED_UP, Then.LOOKED_UP),
        "a compaction": (Then.GOES_ON, Then.HELD, Then.ANEW, Then.LOOKED_UP, Then.LOOKED_UP),
        "a finish": (Then.GOES_ON, Then.HELD, Then.ANEW, Then.LOOKED_UP, Then.LOOKED_UP),
        "a stop": (Then.STOPPED, Then.STOPPED, Then.STOPPED, Then.STOPPED, Then.STOPPED),
        "a goal revised": (Then.GOES_ON, Then.NO_ACT, Then.NO_ACT, Then.ERROR, Then.ERROR),
        "a migration": (Then.GOES_ON, Then.NO_ACT, Then.NO_ACT, Then.ERROR, Then.ERROR),
        "a new pin": (Then.GOES_ON, Then.NO_ACT, Then.NO_ACT, Then.ERROR, Then.ERROR),
    }.items()
}
CELLS = [(entry, came) for entry, row in TABLE.items() for came, then in row.items() if then is not None]


def test_the_table_has_every_trigger() -> None:
    assert {entry.trigger for entry in ENTRIES.values()} == set(Trigger)
    assert set(TABLE) == set(ENTRIES)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with proxied(settings_test.SOCKET_DIR) as proxy:
        yield proxy


def force(patch: pytest.MonkeyPatch, entry: Entry, came: Came, proxy: Proxy) -> list[str]:
    """Let the first save of this entry come out so. Returns what it did, for the test to see that it did."""
    done: list[str] = []

    def forced(candidate: Candidate) -> Prepared | NotSaved:
        of_it = candidate.trigger == entry.trigger and entry.phase in (None, candidate.snapshot.phase)
        if not of_it or done or came == Came.SAVED:
            return prepare(candidate)
        done.append(came)
        wrong: dict[Came, dict[str, Any]] = {
            Came.REFUSED: {"turn_no": float("nan")},
            Came.CONFLICT: {"parent_digest": "a" * 64},
        }
        draft = Snapshot.model_construct(**{**vars(candidate.snapshot), **wrong.get(came, {})})
        prepared = prepare(replace(candidate, snapshot=draft))
        if came in UNKNOWN:
            proxy.cut(entry.match, UNKNOWN[came])
        return prepared

    for saver in SAVERS:
        patch.setattr(saver, forced)
    return done


def attempts(run_id: UUID) -> list[tuple[str, str | None]]:
    rows = SaveAttempt.objects.filter(run_id=run_id).order_by("at")
    return [(row.status, row.kind) for row in rows]


@pytest.mark.parametrize(("name", "came"), CELLS)
def test_each_entry_by_each_outcome(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, proxy: Proxy, name: str, came: Came
) -> None:
    entry, then = ENTRIES[name], TABLE[name][came]
    entry.lead(engine, monkeypatch)
    before = counts()
    with monkeypatch.context() as patch:
        done = force(patch, entry, came, proxy)
        outcome = (
            through(proxy, lambda: _tried(entry, engine, monkeypatch))
            if came in UNKNOWN
            else _tried(entry, engine, monkeypatch)
        )
    assert done == [came] * (came != Came.SAVED)
    if then == Then.NO_ACT:
        assert isinstance(outcome, SnapshotRefused)
        assert added(before) == {"accounts_auditevent": 1}
        assert not isinstance(entry.act(engine, monkeypatch), Refused)
    elif then == Then.ERROR:
        assert isinstance(outcome, OperationalError)
        assert proxy.happened.wait(20)
        there, not_there = entry.lost_tells or (object, object)
        again = entry.act(engine, monkeypatch)
        assert isinstance(again, there if came == Came.UNKNOWN_DONE else not_there), again
        if isinstance(again, Started):
            assert again.new == (came == Came.UNKNOWN_NOT)
    else:
        assert not isinstance(outcome, Refused | Exception), outcome
        _worker_went_on(engine, the_run(), then, came)
    _ends_well(engine, the_run(), stopped=then == Then.STOPPED)


def _tried(entry: Entry, engine: Engine, patch: pytest.MonkeyPatch) -> Any:
    try:
        return entry.act(engine, patch)
    except OperationalError as error:
        if not entry.by_person:
            raise
        return error


def _worker_went_on(engine: Engine, run_id: UUID, then: Then | None, came: Came) -> None:
    """What is recorded of the save, and where the run is."""
    looked_up = {Came.UNKNOWN_DONE: "SAVED", Came.UNKNOWN_NOT: "NOT_SAVED"}
    kinds = {Came.REFUSED: "SCHEMA", Came.CONFLICT: "VERSION_CONFLICT"}
    rows = attempts(run_id)
    if came == Came.SAVED or (then == Then.STOPPED and came in UNKNOWN):  # whether it stopped is told by the lease row
        assert rows == []
    elif came in UNKNOWN:
        assert rows == [(looked_up[came], None)]
        assert Checkpoint.objects.filter(save_id=SaveAttempt.objects.get().save_id).count() == (
            came == Came.UNKNOWN_DONE
        )
    else:
        assert rows == [("NOT_SAVED", kinds[came])]
    run = run_now(run_id)
    if then == Then.HELD:
        assert (run.status, run.hold_reason, lease_of(run_id).owner) == ("HELD", "SAVE_REFUSED", None)
        engine.resume(run_id)
        drive(run_id)
    else:
        assert run.status != "HELD"


def _ends_well(engine: Engine, run_id: UUID, *, stopped: bool) -> None:
    """Whatever became of the save: the run ends, each call was sent once, and the revisions have no gap."""
    drive(run_id)
    while run_now(run_id).status == "WAITING":
        engine.decide(open_wait(run_id))
        drive(run_id)
    assert run_now(run_id).status == ("CANCELLED" if stopped else "COMPLETED")
    labels = [sent.label for sent in SCRIPT.sent]
    assert sorted(labels) == sorted(set(labels))
    revisions = Checkpoint.objects.order_by("revision").values_list("revision", flat=True)
    assert list(revisions) == [*range(1, head_of(run_id).revision + 1)]
    assert broken_invariants() == {}
