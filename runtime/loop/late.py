"""Answers that come after their worker has lost its lease: kept as evidence, never as results (T29, T38)."""

from typing import Any

from django.db import transaction

from checkpoints.envelope import withheld
from receipts.services import Against, call_lock, contradiction_raise
from receipts.states import AttemptOutcome, EvidenceSource, Verdict
from runs.canonical import bounded, canonical, digest
from runs.live import hint_changed
from runs.services import refusal_record
from runs.states import RefusalKind
from runtime.hosts import Tried
from runtime.session import Sending, Session

SAID = 200


def refuse_late(session: Session, sending: Sending, tried: Tried) -> None:
    """Keep a late answer: its digest, what it said in one line and its reference, with secrets withheld.

    It changes no status. Where it speaks against what was accepted meanwhile, a flag is raised that a person closes.
    """
    if tried.unknown:
        return
    late = _late(tried)
    refusal_record(
        tenant_id=session.run.tenant_id,
        run_id=session.run.id,
        kind=RefusalKind.LATE_RESULT,
        fence=session.holding.fence,
        subject_id=sending.call_id,
        evidence_digest=digest(tried.value or canonical({"error": tried.failed or tried.retryable})),
        detail={"attempt": sending.attempt, **late},
    )
    if not sending.tool.local:  # what would have been written here was not
        with transaction.atomic():
            contradiction_raise(call_lock(sending.call_id), against(sending.attempt, late, session.holding.owner))
    hint_changed(tenant_id=session.run.tenant_id, run_id=session.run.id)


def _late(tried: Tried) -> dict[str, Any]:
    """What a late answer said: outcome, one line, reference."""
    outcome = tried.outcome
    if outcome is not None:
        said = {
            "outcome": AttemptOutcome.OK,
            "said": outcome.remark or outcome.target,
            "external_ref": outcome.external_ref,
        }
    elif tried.failed:
        said = {"outcome": AttemptOutcome.ERROR_FINAL, "said": tried.failed, "external_ref": None}
    else:
        said = {"outcome": AttemptOutcome.ERROR_RETRYABLE, "said": tried.retryable, "external_ref": None}
    return {name: _line(str(text)) if text is not None else None for name, text in said.items()}


def _line(text: str) -> str:
    """One line of a text from outside."""
    return bounded(" ".join(withheld(text).split()), SAID)


def against(attempt_no: int, late: dict[str, Any], raised_by: str) -> Against:
    """A kept late answer as evidence about its attempt. What was answered with “no” or “not now” did not happen."""
    happened = late["outcome"] == AttemptOutcome.OK
    return Against(
        attempt_no=attempt_no,
        source=EvidenceSource.LATE_RESULT,
        says=Verdict.EXECUTED if happened else Verdict.NOT_EXECUTED,
        evidence=f"attempt {attempt_no} answered late: {late['outcome']} {late['said']}".strip(),
        external_ref=late["external_ref"],
        raised_by=f"worker:{raised_by}",
    )
