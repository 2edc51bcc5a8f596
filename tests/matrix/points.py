"""The 28 crash points: where each is in a run's life, on which path it exists, and which fault hook marks it.

docs/crash-points.md is this table in words; tests/unit/test_docs.py holds the two together, and
tests/matrix/test_points.py the hooks and the product's code.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Path(StrEnum):
    """What a run is made of: readings and local writes, calls that ask a person, or turns of the model alone."""

    FUSED = "fused"
    APPROVAL = "approval"
    MODEL = "model only"


class Way(StrEnum):
    """How a run came about that gets to a point: each is played on every path."""

    NEW = "new"
    CONTINUED = "continued"
    FORKED = "forked"
    CHILD = "child"
    PAUSED = "paused, and resumed"


class Place(StrEnum):
    """Which program reaches the point."""

    WEB = "web"
    WORKER = "worker"


class Scene(StrEnum):
    """What has to happen for a run to get there."""

    PLAIN = "a run that goes its way"
    STOPPED = "a run that is stopped while its worker stands still at another point"
    VERDICT = "a call of unknown outcome, and a person's verdict on it"
    TAKEOVER = "a worker that stands still before it saves, and another that takes over"
    RETAINED = "a run whose old checkpoints go, while it lives or afterwards"
    HELD_BACK = "an outside world that holds a request back before it executes it"


READS = ("look",)
LOCAL = ("note",)
ASKING = ("once", "again", "asked")
ANY: tuple[str, ...] = ("",)
EVERYWHERE: Mapping[Path, tuple[str, ...]] = dict.fromkeys(Path, ANY)


def _approval(subjects: tuple[str, ...] = ANY) -> Mapping[Path, tuple[str, ...]]:
    return {Path.APPROVAL: subjects}


@dataclass(frozen=True)
class Point:
    """One crash point. `subjects` are, for each path that has it, what its hook may be about ("" is whatever comes).

    `hold` is, for the scenes that need one, the hook at which the first worker stands still.
    """

    id: str
    says: str
    hook: str
    place: Place = Place.WORKER
    subjects: Mapping[Path, tuple[str, ...]] = field(default_factory=dict)
    scene: Scene = Scene.PLAIN
    hold: Mapping[Path, str] = field(default_factory=dict)
    remark: str = ""
    hook_on: Mapping[Path, str] = field(default_factory=dict)
    ways: Sequence[Way] = tuple(Way)

    def hook_of(self, path: Path) -> str:
        """The hook that marks the point on a path."""
        return self.hook_on.get(path, self.hook)


ADMITTED = tuple(way for way in Way if way != Way.PAUSED)
CALLS = {Path.FUSED: READS + LOCAL, Path.APPROVAL: ASKING}
SENT = {Path.FUSED: READS, Path.APPROVAL: ASKING}
STANDS = {Path.FUSED: "after_response", Path.APPROVAL: "after_response", Path.MODEL: "after_model_response"}
SAVING = {Path.FUSED: "inside_result_tx", Path.APPROVAL: "inside_result_tx", Path.MODEL: "after_model_response"}

BY_WORKER = "A child is admitted by the worker of its parent."

POINTS = (
    Point(
        "P01",
        "A run is inserted, not committed",
        "inside_admit_tx",
        Place.WEB,
        EVERYWHERE,
        ways=ADMITTED,
        remark=BY_WORKER,
    ),
    Point(
        "P02",
        "It is committed, its hint not sent",
        "before_enqueue",
        Place.WEB,
        EVERYWHERE,
        ways=ADMITTED,
        remark=BY_WORKER,
    ),
    Point("P03", "A hint is taken, the lease not", "after_dequeue", subjects=EVERYWHERE),
    Point("P04", "The lease is taken", "after_acquire", subjects=EVERYWHERE),
    Point("P05", "A model request is recorded", "after_model_dispatch_commit", subjects=EVERYWHERE),
    Point("P06", "The model has answered, unrecorded", "after_model_response", subjects=EVERYWHERE),
    Point("P07", "The decision is recorded", "after_decision_saved", subjects=EVERYWHERE),
    Point(
        "P08",
        "The checkpoint is saved, the wait not",
        "inside_wait_tx",
        subjects=_approval(ASKING),
        remark="One commit here: neither is there afterwards.",
    ),
    Point(
        "P09",
        "The wait is committed",
        "after_wait_opened",
        subjects=_approval(ASKING),
        remark="The notices of it are rows of the same commit.",
    ),
    Point("P10", "The lease is free for the wait", "after_release", subjects=_approval()),
    Point("P11", "A person's decision is written, not committed", "inside_decide_tx", Place.WEB, _approval()),
    Point("P12", "It is committed, the reply not sent", "after_decision_committed", Place.WEB, _approval()),
    Point("P13", "It is committed, the hint not sent", "before_enqueue", Place.WEB, _approval()),
    Point("P14", "The wake's hint is taken, the lease not", "after_dequeue", subjects=_approval()),
    Point(
        "P15",
        "The last check before a dispatch is done",
        "before_attempt_commit",
        subjects={Path.FUSED: LOCAL, Path.APPROVAL: ASKING},
        hook_on={Path.FUSED: "inside_dispatch_tx"},
        remark="A reading that is sent with its turn has no such gap.",
    ),
    Point("P16", "The dispatch is committed, nothing sent", "after_attempt_commit", subjects=CALLS),
    Point(
        "P17",
        "The call is sent, not yet executed",
        "after_send",
        subjects=SENT,
        scene=Scene.HELD_BACK,
        remark="The outside world executes it afterwards.",
    ),
    Point("P18", "It is executed, the reply not received", "after_send", subjects=SENT),
    Point("P19", "The reply is received, the result not committed", "after_response", subjects=CALLS),
    Point(
        "P20",
        "The result is written, the checkpoint not advanced",
        "inside_result_tx",
        subjects=CALLS,
        remark="One commit here: neither is there afterwards.",
    ),
    Point("P21", "Result and checkpoint are committed, the lease not renewed", "after_result_commit", subjects=CALLS),
    Point(
        "P22",
        "A report version is stored, its receipt not",
        "inside_result_tx",
        subjects={Path.FUSED: LOCAL},
        remark="One commit here: neither is there afterwards.",
    ),
    Point("P23", "The run has ended, nobody was told", "after_terminal_commit", subjects=EVERYWHERE),
    Point(
        "P24",
        "A stop is committed, the worker does not know",
        "after_stop_committed",
        subjects=EVERYWHERE,
        scene=Scene.STOPPED,
        hold=STANDS,
        remark="The fault strikes the worker, which stands still until the stop is committed.",
    ),
    Point(
        "P25",
        "The stop is adopted, the run not closed",
        "after_stop_adopted",
        subjects=EVERYWHERE,
        scene=Scene.STOPPED,
        hold=STANDS,
    ),
    Point(
        "P26",
        "A verdict is committed, its hint not acted on",
        "after_verdict_committed",
        Place.WEB,
        _approval(("once",)),
        scene=Scene.VERDICT,
    ),
    Point(
        "P27",
        "A worker takes over while another is saving",
        "inside_acquire_tx",
        subjects=EVERYWHERE,
        scene=Scene.TAKEOVER,
        hold=SAVING,
        remark="The fault strikes the one that takes over; then the other goes on.",
    ),
    Point(
        "P28",
        "Old bodies of checkpoints are half purged",
        "inside_retain_tx",
        Place.WEB,
        EVERYWHERE,
        scene=Scene.RETAINED,
        remark="One transaction a batch: its bodies are all there afterwards, or all gone with their audit row.",
    ),
)
# Hooks that the scenarios name beside those of the points.
OTHER_HOOKS = frozenset(
    {"after_admit", "before_model_dispatch_commit", "after_turn_sealed", "after_wake_consumed", "after_tool"}
)


def table() -> list[str]:
    """The table as Markdown lines, for docs/crash-points.md."""
    head = [
        "| Point | | Where | " + " | ".join(Path) + " | Runs | Hook |",
        "|---|---|---|" + "---|" * (len(Path) + 2),
    ]
    return head + [_row(point) for point in POINTS]


def _row(point: Point) -> str:
    says = f"{point.says}. {point.remark}".strip()
    there = [", ".join(filter(None, point.subjects.get(path, ()))) or _yes(point, path) for path in Path]
    hooks = dict.fromkeys(point.hook_of(path) for path in point.subjects)
    named = ", ".join(f"`{hook}`" for hook in hooks)
    missing = [f"“{way}”" for way in Way if way not in point.ways]
    ways = f"all but {', '.join(missing)}" if missing else "all"
    return f"| {point.id} | {says} | {point.place} | {' | '.join(there)} | {ways} | {named} |"


def _yes(point: Point, path: Path) -> str:
    return "yes" if path in point.subjects else ""
