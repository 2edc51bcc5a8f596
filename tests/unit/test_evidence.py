"""Claims and evidence: a claim is refused by its line, named by its words, and held against passages by words and numbers."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from runtime.agents.evidence_search import SAMPLE, EvidenceSearch
from runtime.contracts import (
    AgentInputRefused,
    ArgumentsRefused,
    ModelRequest,
    PriorResult,
    ToolContext,
    ToolRetryable,
    ToolUnknown,
)
from runtime.tools.evidence import report
from runtime.tools.evidence.claims import ClaimsRefused, claims_value, read
from runtime.tools.evidence.judge import Verdict, says, together
from runtime.tools.evidence.tools import SearchEvidence, SearchEvidenceArguments, VerifyClaims, VerifyClaimsArguments
from tests.unit.outside_world import outside_world

CLAIM = "Northwind Grid operated 412 substations in 2025."


def result(tool: str, value: dict[str, Any], *, ok: bool = True) -> PriorResult:
    return PriorResult(uuid4(), tool, f"{tool}/x", ok, value)


def claims_read(*texts: str) -> PriorResult:
    return result("read_claims", claims_value(read("\n".join(texts).encode())))


def found(claim_id: str, *texts: str) -> PriorResult:
    passages = [{"id": f"p-{n}", "source": "A source", "text": text} for n, text in enumerate(texts)]
    return result("search_evidence", {"claim_id": claim_id, "passages": passages})


def context(results: list[PriorResult], url: str = "") -> ToolContext:
    return ToolContext(uuid4(), uuid4(), "k1", 1, 5.0, {}, results, url)


# ── claims ───────────────────────────────────────────────────────────────────


def test_a_claim_is_named_by_its_words_wherever_it_stands() -> None:
    [alone] = read(CLAIM.encode())
    _, second = read(f"\ufeff# a comment\r\n\r\nAnother claim.\r\n  {CLAIM.replace(' ', '   ')}\r\n".encode())
    assert (second.id, second.text) == (alone.id, CLAIM)
    assert second.line == 4


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "There is no claim"),
        (b"# only a comment\n\n", "There is no claim"),
        (b"Good enough.\ntoo few", "Line 2 has 7 characters"),
        (b"x" * 301, "Line 1 has 301 characters"),
        (b"Good enough.\nGood  enough.", "Line 2 repeats the claim of line 1"),
        (b"Good enough.\n\xff\xfe no text", "Line 2 is not UTF-8"),
        (b"Good \x00 enough.", r"Line 1 holds the control character U\+0000"),
        ("\n".join(f"This is claim {n}." for n in range(21)).encode(), "Line 21: at most 20"),
    ],
)
def test_claims_that_cannot_be_used_are_refused_by_line(data: bytes, why: str) -> None:
    with pytest.raises(ClaimsRefused, match=why):
        read(data)
    with pytest.raises(AgentInputRefused, match=why):
        EvidenceSearch.check_inputs({"claims": data})


def test_an_input_is_missing_or_unknown_by_name() -> None:
    with pytest.raises(AgentInputRefused, match="claims are missing"):
        EvidenceSearch.check_inputs({})
    with pytest.raises(AgentInputRefused, match="no input a"):
        EvidenceSearch.check_inputs({"a": b"", "claims": CLAIM.encode()})


def test_the_sample_can_be_started_with() -> None:
    assert EvidenceSearch.check_inputs({"claims": SAMPLE.read_bytes()}).endswith("and 4 more")


# ── what a passage says ──────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("passage", "verdict"),
    [
        ("In 2025 the substations that Northwind Grid operated were 412.", Verdict.SUPPORTED),
        ("Northwind Grid operated 398 substations in 2025.", Verdict.AT_ODDS),
        ("Northwind Grid never operated 412 substations in 2025.", Verdict.AT_ODDS),
        ("Northwind Grid hasn't operated 412 substations in 2025.", Verdict.AT_ODDS),
        ("Northwind Grid operated substations.", Verdict.NOT_FOUND),
        ("Northwind Grid operated 412 in 2025.", Verdict.NOT_FOUND),
        ("", Verdict.NOT_FOUND),
    ],
)
def test_a_passage_is_held_against_a_claim_by_words_numbers_and_negation(passage: str, verdict: Verdict) -> None:
    assert says(CLAIM, passage) == verdict


def test_numbers_are_equal_however_their_thousands_are_grouped() -> None:
    assert says("It employs 8300 people.", "It employs 8,300 people.") == Verdict.SUPPORTED
    assert says("Losses were 3.1 percent.", "Losses were 3,1 percent.") == Verdict.AT_ODDS


@pytest.mark.parametrize(
    ("told", "verdict"),
    [
        ([], Verdict.NOT_FOUND),
        ([Verdict.NOT_FOUND], Verdict.NOT_FOUND),
        ([Verdict.SUPPORTED, Verdict.NOT_FOUND], Verdict.SUPPORTED),
        ([Verdict.AT_ODDS], Verdict.AT_ODDS),
        ([Verdict.SUPPORTED, Verdict.AT_ODDS], Verdict.DISPUTED),
    ],
)
def test_passages_together_decide_a_claim(told: list[Verdict], verdict: Verdict) -> None:
    assert together(told) == verdict


# ── the tools ────────────────────────────────────────────────────────────────


def test_only_a_claim_of_this_run_is_searched_and_in_its_own_words() -> None:
    results = [claims_read(CLAIM)]
    [claim] = results[0].value["claims"]
    tool = SearchEvidence()
    assert tool.complete(SearchEvidenceArguments(claim_id=claim["id"]), results) == SearchEvidenceArguments(
        claim_id=claim["id"], query=CLAIM
    )
    with pytest.raises(ArgumentsRefused, match="no claim of this run"):
        tool.complete(SearchEvidenceArguments(claim_id="c-000000000000"), results)
    with pytest.raises(ArgumentsRefused, match="Leave it out"):
        tool.complete(SearchEvidenceArguments(claim_id=claim["id"], query="something else"), results)
    with pytest.raises(ArgumentsRefused, match="read_claims first"):
        tool.complete(SearchEvidenceArguments(claim_id=claim["id"]), [])
    with pytest.raises(ValueError, match="claim_id"):
        SearchEvidenceArguments(claim_id="c-000000000000/../x")


def test_a_claim_whose_search_failed_is_not_called_unfounded() -> None:
    results = [claims_read(CLAIM, "Another claim of a person.")]
    first, second = (claim["id"] for claim in results[0].value["claims"])
    results += [found(first, CLAIM), result("search_evidence", {"error": "refused"}, ok=False)]
    args = VerifyClaims().complete(VerifyClaimsArguments(), results)
    assert args == VerifyClaimsArguments(searched=[first])
    value = VerifyClaims().run(context(results), args).value
    assert [claim["verdict"] for claim in value["claims"]] == ["SUPPORTED", "NOT_SEARCHED"]
    assert value["verified"] == [first]
    body = report.body([*results, result("verify_claims", value)], "Done.")
    assert second in body
    assert "gave no usable answer" in body


def test_a_search_more_makes_the_verification_another_call() -> None:
    results = [claims_read(CLAIM)]
    before = VerifyClaims().complete(VerifyClaimsArguments(), results)
    results.append(found(results[0].value["claims"][0]["id"]))
    assert VerifyClaims().complete(VerifyClaimsArguments(), results) != before


def test_the_search_counts_outside_and_says_what_it_found(tmp_path: Path) -> None:
    with outside_world(tmp_path) as world:
        asked = SearchEvidenceArguments(claim_id="c-000000000000", query="Quarry Robotics paid a dividend for 2025.")
        value = SearchEvidence().run(context([], world.url), asked).value
        assert "paid no dividend" in value["passages"][0]["text"]
        assert world.counts()["evidence"] == {"total": 1, "keys": {"k1": 1}}

        nothing = SearchEvidenceArguments(claim_id="c-000000000000", query="Penguins live in the south.")
        assert SearchEvidence().run(context([], world.url), nothing).value["passages"] == []

        world.control(mode="busy", **{"for": "evidence"})
        with pytest.raises(ToolRetryable):
            SearchEvidence().run(context([], world.url), asked)
        world.control(mode="drop", **{"for": "evidence"})
        with pytest.raises(ToolUnknown):
            SearchEvidence().run(context([], world.url), asked)
        assert world.counts()["evidence"]["total"] == 3


# ── the planner ──────────────────────────────────────────────────────────────


def test_claims_that_cannot_be_read_end_the_work() -> None:
    history = (
        {"role": "assistant", "text": "", "calls": [{"id": "1", "tool": "read_claims", "arguments": {}}]},
        {"role": "tool", "id": "1", "tool": "read_claims", "ok": False, "value": {"error": "Line 2 is too long."}},
    )
    turn = EvidenceSearch.plan(ModelRequest("evidence_search", "scripted", "", "", 2, ("claims",), history, ()))
    [proposal] = turn.proposals
    assert proposal.tool == "finish"
    assert "Line 2 is too long" in proposal.arguments["summary"]
