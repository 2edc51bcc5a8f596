"""The fund comparison's planner: t1 to t7 in order, and sense where a step does not work."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.agents import fund_comparison
from runtime.agents.fund_comparison import FundComparison
from runtime.contracts import AgentInputRefused
from runtime.tools.disclosure import read
from tests.unit.agent_runs import A, B, InMemoryRun
from tests.unit.outside_world import OutsideWorld, outside_world

STEPS = [
    "read_disclosure",
    "read_disclosure",
    "compute_overlap",
    "send_answer_part",
    "fetch_reference",
    "publish_report",
    "finish",
]
SAMPLES = Path(fund_comparison.__file__).parent / "samples"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[OutsideWorld]:
    with outside_world(tmp_path) as running:
        yield running


def test_t1_to_t7_one_proposal_a_turn(world: OutsideWorld) -> None:
    run = InMemoryRun(world.url)
    proposals = run.follow()
    assert [proposal.tool for proposal in proposals] == STEPS
    assert proposals[3].arguments["title"] == "LARCH / MAPLE overlap, 2026-06-30"
    assert "published on the wiki" in proposals[-1].arguments["summary"]
    assert (world.counts()["wiki"]["total"], world.counts()["reference"]["total"]) == (1, 1)
    promised = {obligation.step_name for obligation in FundComparison.spec.obligations}
    assert promised <= {result.step_name for result in run.results}


def test_without_lines_to_explain_the_sheet_is_passed_over(world: OutsideWorld) -> None:
    run = InMemoryRun(world.url, inputs=dict.fromkeys("ab", b"ticker,name,weight (%)\nAAA,ALPHA,100\n"))
    assert [proposal.tool for proposal in run.follow()] == [step for step in STEPS if step != "fetch_reference"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ({"error": "rejected: wrong page"}, "rejected: wrong page"),
        ({"error": "sent, and nobody knows whether it happened"}, "nobody knows"),
        (None, "No reason was given"),
    ],
)
def test_a_publication_that_did_not_work_is_not_proposed_again(
    world: OutsideWorld, error: dict[str, str] | None, said: str
) -> None:
    proposals = InMemoryRun(world.url).follow({"publish_report": error})
    assert [proposal.tool for proposal in proposals] == STEPS
    assert said in proposals[-1].arguments["summary"]


def test_without_the_sheet_the_report_goes_on_and_says_so(world: OutsideWorld) -> None:
    world.control(mode="refuse", **{"for": "reference"})
    run = InMemoryRun(world.url)
    proposals = run.follow()
    assert [proposal.tool for proposal in proposals] == STEPS
    assert "gave no answer" in proposals[5].arguments["summary"]


def test_a_refused_draft_ends_the_work() -> None:
    proposals = InMemoryRun().follow(
        {"send_answer_part": {"error": "denied by policy"}, "fetch_reference": {"error": "x"}}
    )
    assert [proposal.tool for proposal in proposals] == [*STEPS[:5], "finish"]
    assert "denied by policy" in proposals[-1].arguments["summary"]


def test_a_notice_in_between_does_not_stop_it(world: OutsideWorld) -> None:
    run = InMemoryRun(world.url)
    turn = run.ask()
    run.tell(turn, ok=True, value=run.call("read_disclosure", input="a").value)
    run.history.append({"role": "notice", "text": "The goal was revised: compare them again."})
    assert [proposal.tool for proposal in run.follow()] == STEPS[1:]


def test_an_unreadable_input_ends_the_work() -> None:
    proposals = InMemoryRun(inputs={"a": b"nothing", "b": B}).follow()
    assert [proposal.tool for proposal in proposals] == ["read_disclosure", "finish"]


# ── the uploads ──────────────────────────────────────────────────────────────


def test_the_title_of_a_run() -> None:
    assert FundComparison.check_inputs({"a": A, "b": B}) == "LARCH / MAPLE overlap, 2026-06-30"
    later = A.replace(b"2026-06-30", b"2026-07-31")
    assert FundComparison.check_inputs({"a": A, "b": later}) == "LARCH 2026-06-30 / LARCH 2026-07-31 overlap"
    bare = b"ticker,name,weight (%)\nAAA,ALPHA,100\n"
    assert FundComparison.check_inputs({"a": bare, "b": bare}) == "A / B overlap"


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"a": A}, "Disclosure B is missing"),
        ({"a": A, "b": B, "c": B}, "There is no input c"),
        ({"a": A, "b": b"ticker,name,weight (%)\nAAA,ALPHA,x\n"}, "Disclosure B, line 2: "),
        ({"a": b"%PDF", "b": B}, "Disclosure A: This is a PDF"),
    ],
)
def test_bad_uploads_are_refused_by_name(inputs: dict[str, bytes], said: str) -> None:
    with pytest.raises(AgentInputRefused, match=said):
        FundComparison.check_inputs(inputs)


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.csv")), ids=lambda path: path.stem)
def test_the_samples_are_readable_and_labelled_synthetic(path: Path) -> None:
    disclosure = read(path.read_bytes())
    assert disclosure.synthetic
    assert disclosure.without_ticker
    assert disclosure.as_of == "2026-06-30"


def test_facts_that_lapsed_are_read_again_and_the_publication_proposed_again(world: OutsideWorld) -> None:
    """T20: what was asked for rested on the old reading; nothing else is done twice."""
    run = InMemoryRun(world.url)
    not_sent = {"error": "not sent: it rests on facts that have passed their half-life"}
    run.follow({"publish_report": not_sent})
    run.lapsed = {message["id"] for message in run.history if message.get("tool") == "fetch_reference"}
    assert [proposal.tool for proposal in run.follow()] == ["fetch_reference", "publish_report", "finish"]
    assert (world.counts()["wiki"]["total"], world.counts()["reference"]["total"]) == (1, 2)
    run.lapsed |= {message["id"] for message in run.history if message.get("tool") == "fetch_reference"}
    assert [proposal.tool for proposal in run.follow()] == ["finish"]
