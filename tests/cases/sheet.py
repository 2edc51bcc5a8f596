"""The sheet that somebody gets who works the cases: what each of them is to achieve, and nothing of the console."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from tests.cases.case import Case

HEAD = """# The night at Larkspur Trading

You are on call for a small trading house. Agents have done its work during the day and wait for a person now. A colleague,
h.lindqvist, was here before you. Work through what follows, in any order, with nothing but the browser.

What is right is what the paragraph says, to the letter. Where it says that something may go if it is so, and it is not so,
refuse it. Nobody can be asked. If a reason is wanted, a few words will do.

{sign_in}
"""


def sheet(cases: Mapping[int, Case], made: Mapping[int, Sequence[UUID]], url: str, sign_in: str) -> str:
    """The sheet as Markdown, for the cases that were made. `url`: of the console, with a slash at its end."""
    parts = [HEAD.format(sign_in=sign_in)]
    for number, runs in sorted(made.items()):
        case = cases[number]
        link = url.rstrip("/") + case.link(runs) if case.link else ""
        parts.append(f"## {number}. {case.title}\n\n{case.brief.format(link=link)}\n")
    return "\n".join(parts)
