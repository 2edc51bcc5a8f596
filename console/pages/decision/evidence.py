"""What a decision rests on: the last call like it, the model's words, the contract, the stored facts, the report."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from approvals.models import Decision, Wait
from checkpoints.errors import Purged, Unreadable
from checkpoints.models import Checkpoint, Intent, Obligation
from checkpoints.selectors import current_intent, load_snapshot, obligations_of
from console.pages.diff import Difference, difference, json_pieces
from console.pages.resting import RestingFact, resting_facts
from console.pages.stored import stored_arguments
from receipts.models import ModelCall, Publication, ToolCall
from receipts.selectors import report_body
from receipts.states import CallStatus
from runs.models import Run
from runs.selectors import artifact_bytes
from runtime.masking import Masks

LIKE_RUNS = 200  # where a call like this one is looked for: the newest runs of the same agent
LONG = 20  # differing lines that are shown without being asked for

# ── the last call like it ────────────────────────────────────────────────────


@dataclass(frozen=True)
class LikeCall:
    """The newest earlier call of the same step that is decided, how it differs, and how people decided such calls."""

    call: ToolCall
    difference: Difference
    approved: int
    rejected: int

    @property
    def long(self) -> bool:
        """True for a difference that would push everything below it off the screen."""
        return self.difference.changed + self.difference.added + self.difference.removed > LONG


def last_like(wait: Wait, masks: Masks) -> LikeCall | None:
    """The call that this one is compared with, or None. Looks at the newest runs of the agent only. What is marked is masked
    on both sides, whoever looks: equal values have equal digests.
    """
    call = wait.tool_call
    run = Run.objects.select_related("thread").get(id=wait.run_id)
    runs = Run.objects.filter(tenant_id=run.tenant_id, thread__agent_id=run.thread.agent_id)
    newest = list(runs.order_by("-created_at", "-id").values_list("id", flat=True)[:LIKE_RUNS])
    like = ToolCall.objects.filter(run_id__in=newest, tool=call.tool, step_name=call.step_name)
    like = like.exclude(status__in=[CallStatus.PROPOSED, CallStatus.AWAITING_APPROVAL])
    before = list(like.filter(created_at__lt=call.created_at).defer("args").order_by("-created_at")[:LIKE_RUNS])
    if not before:
        return None
    verdicts = Decision.objects.filter(wait__tool_call__in=before).values_list("verdict", flat=True)
    said = list(verdicts)
    then, now = stored_arguments(before[0], masks.of(before[0])), stored_arguments(call, masks.of(call, run=wait.run))
    changed = Difference([], 0, 0, 0, 0)
    if then and now:
        changed = difference(json_pieces(then.value), json_pieces(now.value))
    return LikeCall(before[0], changed, said.count("APPROVE"), said.count("REJECT"))


# ── the model's words ────────────────────────────────────────────────────────


def model_words(call: ToolCall, run: Run, masks: Masks) -> tuple[ModelCall, str] | None:
    """The sealed turn that proposed a call, and its text, without what is masked of the run's calls, whoever looks. None for
    a call that no model proposed.
    """
    turn = ModelCall.objects.filter(run_id=call.run_id, turn_no=call.turn_no, status="SEALED").first()
    if turn is None:
        return None
    stored = json.loads(artifact_bytes(tenant_id=turn.tenant_id, sha256=str(turn.response_digest)))
    return turn, str(masks.proposed(run, stored).value["text"])


# ── the contract ─────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Promised:
    """One obligation, and whether this call is the one that fulfils it."""

    obligation: Obligation
    by_this: bool


def contract_of(call: ToolCall) -> tuple[Intent, list[Promised]]:
    """The goal of the run now, and its obligations."""
    promised = [Promised(row, row.step_name == call.step_name) for row in obligations_of(call.run_id)]
    return current_intent(call.run_id), promised


# ── the facts ────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Facts:
    """The results behind a revision; `unreadable` says why they can't be listed."""

    facts: Sequence[RestingFact]
    total: int
    unreadable: str = ""
    purged: bool = False


def facts_of(*, run_id: UUID, revision: int, masks: Masks) -> Facts:
    """The results that a revision refers to, the newest first, each looked up and compared now."""
    saved = Checkpoint.objects.filter(run_id=run_id, revision=revision).first()
    if saved is None:
        return Facts([], 0, "the revision is not stored")
    try:
        snapshot = load_snapshot(saved)
    except Unreadable as error:
        return Facts([], 0, error.found, purged=isinstance(error, Purged))
    return Facts(resting_facts(snapshot, masks), len(snapshot.results))


# ── the report ───────────────────────────────────────────────────────────────


def report_preview(publication: Publication | None) -> str:
    """The Markdown of the report version that a call publishes; empty for a call that publishes none."""
    return report_body(publication.report_version) if publication else ""
