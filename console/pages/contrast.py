"""The contrast of the tokens, computed from static/css/tokens.css: what the guide shows and a test holds to its promise."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from console.environment import BASE_DIR

TOKENS = BASE_DIR / "static" / "css" / "tokens.css"
GROUNDS = ("ground", "surface", "raised", "well")
STATES = ("clear", "caution", "stop", "unknown", "neutral")
TEXT, SHAPE = 4.5, 3.0  # WCAG 2.2: text; icons, edges and the focus ring
_PAIR = re.compile(r"--([a-z0-9-]+):\s*light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)")


@dataclass(frozen=True)
class Contrast:
    """One colour on another, in the light theme and in the dark one, and what it must reach."""

    front: str
    back: str
    light: float
    dark: float
    needed: float


@cache
def contrasts() -> list[Contrast]:
    """Every pair that the console draws, the tightest first."""
    colours = {name: (light, dark) for name, light, dark in _PAIR.findall(TOKENS.read_text())}
    text = [(ink, ground) for ink in ("ink", "ink-2", "ink-3") for ground in GROUNDS]
    text += [(state, on) for state in STATES for on in ("surface", "ground", f"{state}-tint")] + [("on-solid", "solid")]
    shapes = [(f"{state}-lamp", on) for state in STATES for on in ("surface", "ground", f"{state}-tint")]
    shapes += [(line, ground) for line in ("edge", "focus") for ground in GROUNDS]
    pairs = [_pair(colours, *pair, TEXT) for pair in text] + [_pair(colours, *pair, SHAPE) for pair in shapes]
    return sorted(pairs, key=lambda pair: min(pair.light, pair.dark) / pair.needed)


def _pair(colours: Mapping[str, tuple[str, str]], front: str, back: str, needed: float) -> Contrast:
    light, dark = (ratio(colours[front][theme], colours[back][theme]) for theme in (0, 1))
    return Contrast(front, back, light, dark, needed)


def ratio(one: str, other: str) -> float:
    """The contrast of two #rrggbb colours by WCAG 2.2, from 1 to 21."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
