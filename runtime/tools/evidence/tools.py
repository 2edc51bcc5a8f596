"""Claims are read, evidence is searched for each, and what was found is held against them. All of it only reads."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field

from receipts.states import EffectClass
from runtime.contracts import (
    Arguments,
    ArgumentsRefused,
    PriorResult,
    ToolContext,
    ToolFailed,
    ToolOutcome,
    ToolUnknown,
)
from runtime.tools.base import PlainTool, expect
from runtime.tools.evidence.claims import ID_PATTERN, LONGEST, ClaimsRefused, claims_value, read, stored_claims
from runtime.tools.evidence.judge import Verdict, says, together
from runtime.tools.http import refuse_unless_done, send

MAX_PASSAGES = 10
TEXT_LIMITS = {"id": 100, "source": 200, "text": 1000}
COMPLETED = {"readOnly": True}


class ReadClaimsArguments(Arguments):
    """None: the run has one input, its claims."""


class ReadClaims(PlainTool):
    """Reads the claims that the run was given, and gives each its id."""

    key: ClassVar[str] = "read_claims"
    version: ClassVar[str] = "1"
    description: ClassVar[str] = "Read the claims that this run was given. Each has an id."
    effect_class: ClassVar[EffectClass] = EffectClass.READ_ONLY
    timeout_seconds: ClassVar[float] = 10.0
    arguments: ClassVar[type[Arguments]] = ReadClaimsArguments

    def step_label(self, args: Arguments) -> str:
        return "claims"

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        """The claims in their order. Raises ToolFailed for a text that can't be read."""
        if "claims" not in context.inputs:
            raise ToolFailed("The run has no input claims.")
        try:
            return ToolOutcome(claims_value(read(context.inputs["claims"])))
        except ClaimsRefused as refusal:
            raise ToolFailed(str(refusal)) from refusal


class SearchEvidenceArguments(Arguments):
    claim_id: str = Field(pattern=ID_PATTERN, description="The id of the claim to search evidence for.")
    query: Annotated[
        str,
        Field(max_length=LONGEST, description="Filled in from the claim. Leave it out.", json_schema_extra=COMPLETED),
    ] = ""


class SearchEvidence(PlainTool):
    """Searches the outside collection for passages about one claim."""

    key: ClassVar[str] = "search_evidence"
    version: ClassVar[str] = "1"
    description: ClassVar[str] = "Search the outside collection for passages about one claim, named by its id."
    effect_class: ClassVar[EffectClass] = EffectClass.READ_ONLY
    timeout_seconds: ClassVar[float] = 10.0
    arguments: ClassVar[type[Arguments]] = SearchEvidenceArguments

    def complete(self, args: Arguments, results: Sequence[PriorResult]) -> Arguments:
        """Fill in the claim's own words. Refuses an id that no claim of this run has, and a query of the model's own."""
        search = expect(args, SearchEvidenceArguments)
        claims = stored_claims(results)
        if search.claim_id not in claims:
            raise ArgumentsRefused(f"claim_id {search.claim_id} is the id of no claim of this run.")
        query = claims[search.claim_id]
        if search.query not in ("", query):
            raise ArgumentsRefused("query is filled in from the claim. Leave it out.")
        return search.model_copy(update={"query": query})

    def step_label(self, args: Arguments) -> str:
        return expect(args, SearchEvidenceArguments).claim_id

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        """The passages that the collection gave, at most ten."""
        search = expect(args, SearchEvidenceArguments)
        answer = send(context, "GET", "/evidence", params={"q": search.query})
        refuse_unless_done(answer, reading=True)
        passages = _passages(answer.object())
        return ToolOutcome({"claim_id": search.claim_id, "passages": passages}, target="evidence collection")


def _passages(value: dict[str, Any]) -> list[dict[str, str]]:
    """Well-formed passages only, or the whole answer counts as unusable (ToolUnknown)."""
    passages = value.get("passages")
    if not isinstance(passages, list):
        raise ToolUnknown("The collection's answer holds no list of passages.")
    return [_passage(passage) for passage in passages[:MAX_PASSAGES]]


def _passage(passage: object) -> dict[str, str]:
    if not isinstance(passage, dict) or any(not isinstance(passage.get(name), str) for name in TEXT_LIMITS):
        raise ToolUnknown("A passage of the collection's answer can't be read.")
    return {name: passage[name][:limit] for name, limit in TEXT_LIMITS.items()}


class VerifyClaimsArguments(Arguments):
    searched: Annotated[
        list[Annotated[str, Field(pattern=ID_PATTERN)]],
        Field(description="Filled in: the claims that were searched. Leave it out.", json_schema_extra=COMPLETED),
    ] = []


class VerifyClaims(PlainTool):
    """Holds every claim against the stored passages. A pure function of stored results."""

    key: ClassVar[str] = "verify_claims"
    version: ClassVar[str] = "1"
    description: ClassVar[str] = (
        "Hold every claim against the passages that were found for it, by words and numbers. Call it when all searches "
        "are done."
    )
    effect_class: ClassVar[EffectClass] = EffectClass.READ_ONLY
    timeout_seconds: ClassVar[float] = 10.0
    arguments: ClassVar[type[Arguments]] = VerifyClaimsArguments

    def complete(self, args: Arguments, results: Sequence[PriorResult]) -> Arguments:
        """Fill in which claims were searched, so that a verification after one more search is another call."""
        given = expect(args, VerifyClaimsArguments).searched
        searched = [claim for claim in stored_claims(results) if claim in _searches(results)]
        if given and given != searched:
            raise ArgumentsRefused("searched is filled in from stored results. Leave it out.")
        return VerifyClaimsArguments(searched=searched)

    def step_label(self, args: Arguments) -> str:
        return "claims"

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        """A verdict for every claim, and the ids of those that a passage supports."""
        searches = _searches(context.results)
        verdicts = [_verdict(id, text, searches.get(id)) for id, text in stored_claims(context.results).items()]
        verified = [claim["id"] for claim in verdicts if claim["verdict"] == Verdict.SUPPORTED]
        return ToolOutcome({"claims": verdicts, "verified": verified})


def _searches(results: Sequence[PriorResult]) -> dict[str, PriorResult]:
    """The newest successful search of each claim, by its id."""
    return {result.value["claim_id"]: result for result in results if result.tool == "search_evidence" and result.ok}


def _verdict(id: str, text: str, search: PriorResult | None) -> dict[str, Any]:
    if search is None:
        return {"id": id, "text": text, "verdict": Verdict.NOT_SEARCHED.value, "passages": []}
    passages = [passage | {"says": says(text, passage["text"]).value} for passage in search.value["passages"]]
    verdict = together(Verdict(passage["says"]) for passage in passages)
    told = [passage for passage in passages if passage["says"] != Verdict.NOT_FOUND]
    return {"id": id, "text": text, "verdict": verdict.value, "passages": told}
