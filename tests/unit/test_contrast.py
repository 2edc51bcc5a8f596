"""The tokens keep their promised contrast: 4.5 : 1 for text, 3 : 1 for icons, edges and the focus ring, in both themes."""

import pytest

from console.pages.contrast import Contrast, contrasts, ratio


def test_black_on_white_is_21_and_a_colour_on_itself_is_1() -> None:
    assert round(ratio("#000000", "#ffffff"), 2) == 21
    assert ratio("#737e78", "#737e78") == 1


@pytest.mark.parametrize("pair", contrasts(), ids=lambda pair: f"{pair.front} on {pair.back}")
def test_contrast(pair: Contrast) -> None:
    assert min(pair.light, pair.dark) >= pair.needed
