"""What a decision rests on: the last call like it, the model's words, the contract, the stored facts, the report."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from django.db.models import QuerySet

from accounts.statements import together
from approvals.models import Decision, Wait
from checkpoints.errors import Purged, Unreadable
from checkpoints.models import Checkpoint, Commitment, Obligation
from checkpoints.selectors import load_snapshot
from console.pages.decision.earlier import asked_before
from console.pages.diff import Difference, difference, json_pieces
from console.pages.resting import RestingFact, resting_facts
from console.pages.stored import stored_arguments
from receipts.models import ModelCall, Publication, ReportVersion, ToolCall
from receipts.states import CallStatus, ModelCallStatus
from runs.models import Artifact, Run
from runs.selectors import plain_bytes
from runtime.masking import Masks

LIKE_RUNS = 200  # where a call like this one is looked for: the newest runs of the same agent

# ── the rows ─────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Ground:
    """The rows that a decision rests on. `like`: the call that this one is compared with, `verdicts` what people said of such calls,
    `asked` what they have decided before on the same tool.
    """

    promised: list[Obligation]
    commitments: list[Commitment]
    turns: list[ModelCall]
    like: list[ToolCall]
    verdicts: list[Decision]
    asked: list[Wait]
    said: list[Artifact]
    reports: list[Artifact]

    @cached_property
    def texts(self) -> Mapping[str, bytes]:
        """The turn that proposed the call, and the report that it publishes, by their digests. Raises BodyChanged."""
        return plain_bytes([*self.said, *self.reports])


def ground_of(wait: Wait) -> Ground:
    """What a wait that `access_wait` has given out rests on, in one query."""
    like = _like(wait).order_by("-created_at")
    turns = ModelCall.objects.filter(run=wait.run_id, turn_no=wait.tool_call.turn_no, status=ModelCallStatus.SEALED)
    texts = Artifact.objects.filter(tenant_id=wait.tenant_id)
    return Ground(
        *together(
            Obligation.objects.filter(run=wait.run_id).order_by("promised_at", "id"),
            Commitment.objects.filter(run=wait.run_id).order_by("accepted_at", "id"),
            turns,
            like.select_related("run")[:1],
            Decision.objects.filter(wait__tool_call__in=like.values("id")[:LIKE_RUNS]),
            asked_before(wait),
            texts.filter(sha256__in=turns.values("response_digest")),
            texts.filter(
                sha256__in=ReportVersion.objects.filter(publications__tool_call=wait.tool_call).values("sha256")
            ),
        )
    )


def _like(wait: Wait) -> QuerySet[ToolCall]:
    """The earlier calls of the same step that are decided, of the newest runs of the agent only."""
    run, call = wait.run, wait.tool_call
    runs = Run.objects.filter(
        tenant_id=run.tenant_id, thread__agent_id=run.thread.agent_id, created_at__lt=call.created_at
    )
    newest = runs.order_by("-created_at", "-id").values("id")[:LIKE_RUNS]
    like = ToolCall.objects.filter(run__in=newest, tool=call.tool, step_name=call.step_name)
    undecided = [CallStatus.PROPOSED, CallStatus.AWAITING_APPROVAL]
    return like.exclude(status__in=undecided).filter(created_at__lt=call.created_at)


# ── the last call like it ────────────────────────────────────────────────────


@dataclass(frozen=True)
class LikeCall:
    """The newest earlier call of the same step that is decided, how it differs, and how people decided such calls."""

    call: ToolCall
    difference: Difference
    approved: int
    rejected: int


def last_like(wait: Wait, ground: Ground, masks: Masks) -> LikeCall | None:
    """The call that this one is compared with, or None. What is marked is masked on both sides, whoever looks: equal values have
    equal digests.
    """
    if not ground.like:
        return None
    call, before = wait.tool_call, ground.like[0]
    said = [decision.verdict for decision in ground.verdicts]
    then, now = stored_arguments(before, masks.of(before)), stored_arguments(call, masks.of(call, run=wait.run))
    changed = Difference([], 0, 0, 0, 0)
    if then and now:
        changed = difference(json_pieces(then.value), json_pieces(now.value))
    return LikeCall(before, changed, said.count("APPROVE"), said.count("REJECT"))


# ── the model's words ────────────────────────────────────────────────────────


def model_words(run: Run, ground: Ground, masks: Masks) -> tuple[ModelCall, str] | None:
    """The sealed turn that proposed a call, and its text, without what is masked of the run's calls, whoever looks. None for
    a call that no model proposed.
    """
    if not ground.turns:
        return None
    turn = ground.turns[0]
    stored = json.loads(ground.texts[str(turn.response_digest)])
    return turn, str(masks.proposed(run, stored).value["text"])


# ── the contract ─────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Promised:
    """One obligation, and whether this call is the one that fulfils it."""

    obligation: Obligation
    by_this: bool


def promises_of(call: ToolCall, ground: Ground) -> list[Promised]:
    """The obligations of the run, in the order in which they were promised."""
    return [Promised(row, row.step_name == call.step_name) for row in ground.promised]


# ── the facts ────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Facts:
    """The results behind a revision; `unreadable` says why they can't be listed."""

    facts: Sequence[RestingFact]
    total: int
    unreadable: str = ""
    purged: bool = False


def facts_of(saved: Checkpoint | None, masks: Masks) -> Facts:
    """The results that a revision refers to, the newest first, each looked up and compared now."""
    if saved is None:
        return Facts([], 0, "the revision is not stored")
    try:
        snapshot = load_snapshot(saved)
    except Unreadable as error:
        return Facts([], 0, error.found, purged=isinstance(error, Purged))
    return Facts(resting_facts(snapshot, masks), len(snapshot.results))


# ── the report ───────────────────────────────────────────────────────────────


def report_preview(publication: Publication | None, ground: Ground) -> str:
    """The Markdown of the report version that a call publishes; empty for a call that publishes none."""
    return ground.texts[publication.report_version.sha256].decode() if publication else ""
