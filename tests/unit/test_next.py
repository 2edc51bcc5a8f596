"""What a worker does next: every phase by everything that it may know (B-006, A-141)."""

from itertools import product

import pytest

from checkpoints.states import ENDED_PHASE, Phase
from runtime.loop import STEPS
from runtime.loop.next import BY_PHASE, Known, Next, decide_next

FLAGS = ("lost", "stop_seen", "draining", "to_send", "asked", "unsaved")
ANY = {True, False}

# (lost, stop_seen, draining, to_send, asked, unsaved) in words, the phases, and what is next. Each state is in one row.
ROWS: list[tuple[dict[str, bool], frozenset[str], Next | None]] = [
    ({"lost": True}, frozenset(Phase), Next.GIVE_UP),
    ({"lost": False, "stop_seen": True, "to_send": False}, frozenset(Phase), Next.STOP),
    (
        {"lost": False, "stop_seen": False, "draining": True, "to_send": False, "asked": False},
        frozenset(Phase),
        Next.GIVE_BACK,
    ),
    (
        {"lost": False, "stop_seen": False, "draining": False, "to_send": False, "asked": False, "unsaved": True},
        frozenset(
            {Phase.DECISION_RECORDED, Phase.AWAITING_APPROVAL, Phase.AWAITING_INPUT, Phase.READY_TO_VERIFY}
            | ENDED_PHASE
        ),
        Next.UNBOUND,
    ),
]
PHASES = [
    (Phase.READY_TO_DECIDE, Next.THINK),
    (Phase.DECISION_RECORDED, Next.ROUTE),
    (Phase.AWAITING_APPROVAL, Next.WAKE),
    (Phase.AWAITING_INPUT, Next.HEAR),
    (Phase.AWAITING_TOOL_RESULT, Next.AWAIT_RESULT),
    (Phase.TOOL_RESULT_RECORDED, Next.ROUTE),
    (Phase.READY_TO_VERIFY, Next.VERIFY),
]
STATES = [Known(phase, **dict(zip(FLAGS, flags, strict=True))) for phase in Phase for flags in product(ANY, repeat=6)]


def rows_of(known: Known) -> list[Next | None]:
    """What the table says of a state, by every row that it is in."""
    return [
        then
        for given, phases, then in ROWS
        if known.phase in phases and all(getattr(known, n) == v for n, v in given.items())
    ]


@pytest.mark.parametrize("phase", list(Phase))
def test_every_state_of_a_phase_has_one_next_step(phase: Phase) -> None:
    states = [known for known in STATES if known.phase == phase]
    assert len(states) == 64
    for known in states:
        said = rows_of(known)
        assert len(said) <= 1, known
        if said:
            assert decide_next(known) == said[0], known
        elif phase in BY_PHASE:
            assert decide_next(known) == dict(PHASES)[phase], known
        else:
            with pytest.raises(KeyError):
                decide_next(known)


def test_what_was_dispatched_is_sent_unless_the_lease_is_lost() -> None:
    """Otherwise its outcome would be unknown without need."""
    for known in STATES:
        if known.to_send and not known.lost and known.phase in BY_PHASE:
            assert decide_next(known) == BY_PHASE[known.phase]


def test_a_stop_wins_over_a_drain_and_over_the_phase() -> None:
    for known in STATES:
        if known.stop_seen and not known.to_send and not known.lost:
            assert decide_next(known) == Next.STOP


def test_every_step_is_done_by_the_loop() -> None:
    assert set(STEPS) == set(Next)
    assert set(dict(PHASES)) == set(BY_PHASE)
