"""Writes of what happened, outside the hot path: unknown outcomes, verdicts, reports, publications, cancellations.

Every function runs in the caller's transaction, with the lease and the run already locked.
"""

from receipts.services.attachments import attachment_store
from receipts.services.attempts import (
    attempt_find,
    attempt_lost,
    attempt_refused,
    model_call_failed,
    receipt_of,
)
from receipts.services.calls import (
    call_answered,
    call_author,
    call_await,
    call_doubt,
    call_fail,
    call_lock,
    call_refuse,
    call_reuse,
    calls_cancel,
    unknown_reads_release,
)
from receipts.services.claims import (
    claim_release,
    claim_take,
    second_effect_grant,
    second_effect_of,
)
from receipts.services.contradictions import (
    Against,
    contradiction_close,
    contradiction_raise,
)
from receipts.services.probes import probe_answer, probe_open
from receipts.services.reports import (
    ReportText,
    publication_exists,
    report_version_store,
)
from receipts.services.verdicts import (
    VerdictGiven,
    call_give_up,
    verdict_store,
)
from receipts.services.words import word_close, word_store

__all__ = [
    "Against",
    "ReportText",
    "VerdictGiven",
    "attachment_store",
    "attempt_find",
    "attempt_lost",
    "attempt_refused",
    "call_answered",
    "call_author",
    "call_await",
    "call_doubt",
    "call_fail",
    "call_give_up",
    "call_lock",
    "call_refuse",
    "call_reuse",
    "calls_cancel",
    "claim_release",
    "claim_take",
    "contradiction_close",
    "contradiction_raise",
    "model_call_failed",
    "probe_answer",
    "probe_open",
    "publication_exists",
    "receipt_of",
    "report_version_store",
    "second_effect_grant",
    "second_effect_of",
    "unknown_reads_release",
    "verdict_store",
    "word_close",
    "word_store",
]
