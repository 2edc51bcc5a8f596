"""Ids and digests inside a text are shortened for the eye and stay whole on hover."""

import pytest

from console.pages.text import with_short_ids
from console.templatetags.moments import told

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
    assert "<script>" not in told(f"<script>{ID}</script>")


def test_a_sentence_of_a_service_names_moments_and_ids_as_a_page_does() -> None:
    said = told(f"It was replaced at 2026-11-30 21:10:52 UTC. Decide wait {ID} instead.")
    assert '<time datetime="2026-11-30T21:10:52' in said and "21:10:52 UTC." not in said
    assert f'title="{ID}">…<b>f04c3c</b></span> instead.' in said


def test_a_moment_that_no_calendar_has_stays_as_it_is_written() -> None:
    assert "2026-02-31 21:10:52 UTC" in told("at 2026-02-31 21:10:52 UTC")
