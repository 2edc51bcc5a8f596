"""The report of an evidence search as Markdown, from stored results only: every claim with its id and its passages."""

from collections.abc import Iterator, Sequence
from typing import Any

from runtime.contracts import ArgumentsRefused, PriorResult
from runtime.tools import stored
from runtime.tools.evidence.judge import Verdict
from runtime.tools.report import escape, linked, model_text

SAYS = {
    Verdict.SUPPORTED: "supported: a passage has all its words and numbers",
    Verdict.AT_ODDS: "at odds: a passage has its words, but other numbers or another negation",
    Verdict.DISPUTED: "disputed: one passage supports it, another is at odds with it",
    Verdict.NOT_FOUND: "not found: no passage has all its words",
    Verdict.NOT_SEARCHED: "not searched: the collection gave no usable answer",
}


def body(results: Sequence[PriorResult], summary: str) -> str:
    """The whole report. Deterministic in the stored results. Raises ArgumentsRefused before the verification."""
    verified = stored.newest(results, "verify_claims")
    if verified is None:
        raise ArgumentsRefused("The claims have not been verified. Call verify_claims first.")
    searches = [result for result in results if result.tool == "search_evidence" and result.ok]
    by_claim = {result.value["claim_id"]: result for result in searches}
    claims = verified.value["claims"]
    parts = [*_head(verified), *(line for claim in claims for line in _claim(claim, verified, by_claim))]
    parts += [*model_text(summary), *_receipts([*searches, verified])]
    return "\n".join(parts) + "\n"


def _head(verified: PriorResult) -> Iterator[str]:
    count, total = len(verified.value["verified"]), len(verified.value["claims"])
    yield f"**{linked(count, verified)} of {linked(total, verified)} claims are supported by a passage.**"
    yield ""
    yield "Compared by words and numbers, not by meaning. Read the passages before you rely on a verdict."
    yield ""
    if count:
        yield f"Verified claims: {', '.join(linked(id, verified) for id in verified.value['verified'])}."
        yield ""


def _claim(claim: dict[str, Any], verified: PriorResult, searches: dict[str, PriorResult]) -> Iterator[str]:
    yield f"## {escape(claim['text'])}"
    yield ""
    yield f"{linked(claim['id'], verified)} is {SAYS[Verdict(claim['verdict'])]}."
    yield ""
    for passage in claim["passages"]:
        source = linked(f"{passage['source']}, {passage['id']}", searches[claim["id"]])
        yield f"- {escape(passage['text'])} ({source})"
    if claim["passages"]:
        yield ""


def _receipts(sources: Sequence[PriorResult]) -> Iterator[str]:
    yield "## Receipts"
    yield ""
    for source in sources:
        yield f"- {linked(source.step_name, source)}"
