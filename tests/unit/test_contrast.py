"""The tokens keep their promised contrast: 4.5 : 1 for text, 3 : 1 for icons, edges and the focus ring, in both themes."""

import re

import pytest

from console.environment import BASE_DIR

TOKENS: dict[str, tuple[str, str]] = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--([a-z0-9-]+):\s*light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)",
        (BASE_DIR / "static/css/tokens.css").read_text(),
    )
}
GROUNDS = ("ground", "surface", "raised", "well")
STATES = ("clear", "caution", "stop", "unknown", "neutral")
TEXT = [(ink, ground) for ink in ("ink", "ink-2", "ink-3") for ground in GROUNDS]
TEXT += [(state, on) for state in STATES for on in ("surface", "ground", f"{state}-tint")]
TEXT += [("on-solid", "solid")]
SHAPES = [(f"{state}-lamp", on) for state in STATES for on in ("surface", "ground", f"{state}-tint")]
SHAPES += [("edge", ground) for ground in GROUNDS] + [("focus", ground) for ground in GROUNDS]


def luminance(colour: str) -> float:
    """Relative luminance of a #rrggbb colour by WCAG 2.2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("front", "back", "needed"), [(*pair, 4.5) for pair in TEXT] + [(*pair, 3.0) for pair in SHAPES]
)
def test_contrast(front: str, back: str, needed: float, theme: int) -> None:
    assert contrast(TOKENS[front][theme], TOKENS[back][theme]) >= needed
