"""What a refusal says in the panel of the time axis: words, never a list as the code has it."""

import pytest

from console.pages.run.detail import plain_detail

SHORT = {"cap": 2, "room": 0, "unit": "tool_calls", "wanted": 1}
MONEY = {"cap": 1_000_000, "room": -5, "unit": "usd_micros", "wanted": 20_000}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([SHORT], "tool calls: 1 wanted, 0 left of 2"),
        ([SHORT, MONEY], "tool calls: 1 wanted, 0 left of 2; money: $0.0200 wanted, $0.0000 left of $1.0000"),
        (["a", "b"], "a, b"),
        ([], ""),
        ({"held_by": "c"}, "held by c"),
        (7, "7"),
        ("as it is", "as it is"),
    ],
)
def test_a_detail_is_said_in_words(value: object, said: str) -> None:
    assert plain_detail(value) == said
