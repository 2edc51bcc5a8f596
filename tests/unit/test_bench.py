"""What the benchmark makes of its figures: pure arithmetic, by hand."""

import pytest

from bench.closed_loop import Load
from bench.growing import STEPS, WINDOW, Grown, texts, weight
from bench.growth import STATE, TRACE
from bench.payload import LARGE_MESSAGES, SMALL_MESSAGES, messages
from bench.rounds import Rounds, Weighed
from runs.canonical import canonical


def load(per_second: float) -> Load:
    return Load(per_second, 1, 1.0, 1.0)


def test_a_ratio_is_the_median_of_the_ratios_of_rounds_that_ran_side_by_side() -> None:
    rounds = Rounds({"ours": [load(10), load(90), load(30)], "floor": [load(100), load(100), load(60)]})
    assert rounds.ratio("ours", "floor") == 0.5
    assert rounds.rate("ours") == 30


def test_the_pace_of_a_growth_is_that_of_its_first_and_its_last_hundred_steps() -> None:
    seconds = [0.002] * WINDOW + [1.0] * (STEPS - 2 * WINDOW) + [0.003] * WINDOW
    marks = [sum(seconds[:number]) for number in range(STEPS + 1)]
    grown = Grown(checkpoints=STEPS, marks=marks, loads=[9.0, 1.0, 5.0], heads=[2.0, 4.0])
    assert [grown.first_ms, grown.last_ms] == pytest.approx([2.0, 3.0])
    assert (grown.load_ms, grown.head_ms) == (5.0, 3.0)


def test_a_growth_is_weighed_by_what_the_tables_gained() -> None:
    before = {"checkpoints_checkpoint": 100, TRACE: 50}
    after = {"checkpoints_checkpoint": 300, TRACE: 150, "receipts_result": 40, "receipts_resulting": 2, "runs_run": 60}
    assert weight(before, after) == 402
    weighed = Weighed(Grown(checkpoints=2, marks=[], loads=[], heads=[]), before, after)
    assert (weighed.bytes_each(TRACE), weighed.bytes_each(*STATE), weighed.bytes_each()) == (50, 121, 201)


def test_every_message_of_the_growth_is_another_text_of_500_bytes() -> None:
    given = texts(30)
    assert len(set(given)) == 30
    assert {len(text.encode()) for text in given} == {500}


@pytest.mark.parametrize(("count", "size"), [(SMALL_MESSAGES, 2_000), (LARGE_MESSAGES, 500_000)])
def test_the_state_that_peers_save_has_its_size(count: int, size: int) -> None:
    assert len(canonical(messages(count))) == pytest.approx(size, rel=0.05)
