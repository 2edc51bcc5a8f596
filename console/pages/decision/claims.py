"""What a model claims of an approval, in its own text or in an argument: quoted as the model's, and as nothing that is stored here."""

import re
from collections.abc import Iterator

from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.pages.arguments import leaves
from console.pages.decision.points import Point, model_quote
from console.pages.stored import Stored
from console.pages.text import exact

AROUND = 60  # characters beside a claim that are quoted with it

_CLAIM = re.compile(
    r"""\b(?:
        (?:already|pre-?|been|was|is|were|are)[ ]?(?:approved|authori[sz]ed|cleared|signed[ ]off|confirmed)
      | (?:approved|authori[sz]ed|cleared|signed[ ]off|confirmed)[ ](?:by|per|under)\b
      | no[ ](?:further|more|other|additional)?[ ]?(?:checks?|reviews?|approvals?|confirmation)[ ](?:is|are)?[ ]?(?:needed|required|necessary)
      | (?:needs|requires)[ ]no[ ](?:further[ ])?(?:check|review|approval|confirmation)
      | (?:only|just|merely|purely)[ ]an?[ ]formality
      | (?:policy|compliance|security)[ ](?:check|review)[ ](?:has[ ])?(?:been[ ])?passed
      | (?:confirm|approve)(?:[ ]this)?[ ]at[ ]once
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)


def quoted_claim(text: str) -> str:
    """The first claim of an approval in a text, with a few words around it and no more; "" where there is none."""
    found = _CLAIM.search(" ".join(text.split()))
    if found is None:
        return ""
    start, end = max(0, found.start() - AROUND // 2), min(len(found.string), found.end() + AROUND // 2)
    head, tail = "… " if start else "", " …" if end < len(found.string) else ""
    return f"{head}{found.string[start:end].strip()}{tail}"


def claim_points(said: str, arguments: Stored | None, *, by_person: bool) -> Iterator[Point]:
    """That the model claims an approval. `said`: its text; `arguments`: what anybody may be shown of them; `by_person`: a person
    wrote them, so that what stands there is theirs.
    """
    places = [("its own text", said)]
    if arguments is not None and not by_person:
        places += [(path, leaf) for path, leaf in leaves(arguments.value) if isinstance(leaf, str)]
    claims = [(place, claim) for place, text in places if (claim := quoted_claim(text))]
    if claims:
        named = [format_html("in {}: {}", _place(place), model_quote(claim)) for place, claim in claims]
        text = format_html("The model claims an approval, {}", _joined(named))
        yield Point(
            "stop", "caution", text, "The server knows of none. Whoever approves here is the one who approves it."
        )


def _place(place: str) -> SafeString:
    return (
        format_html("{}", place)
        if place == "its own text"
        else format_html("<code>{}</code>", exact(place, one_line=True))
    )


def _joined(parts: list[SafeString]) -> SafeString:
    joined = parts[0]
    for part in parts[1:]:
        joined = format_html("{}; {}", joined, part)
    return joined
