"""Ids and digests inside a text are shortened for the eye and stay whole on hover."""

import pytest

from console.pages.text import with_short_ids

ID, SHA = "019fd494-3360-734e-9aed-efffddf04c3c", "8f037db8" + "0" * 56


@pytest.mark.parametrize(
    ("whole", "short"), [(ID, f'title="{ID}">…<b>f04c3c</b>'), (SHA, f'title="sha256 {SHA}"><b>8f037db8</b>…')]
)
def test_what_is_long_by_nature_is_shortened(whole: str, short: str) -> None:
    assert short in with_short_ids(f"run {whole}, verdict APPROVE")


@pytest.mark.parametrize("text", [ID[:-1], SHA + "0", "a-b-c", "12"])
def test_what_is_neither_id_nor_digest_stays_as_it_is(text: str) -> None:
    assert text in with_short_ids(f"so {text} it is")


def test_text_of_others_stays_inert() -> None:
    assert "<script>" not in with_short_ids(f"<script>{ID}</script>")
