"""The keys and specimens of the style guide at /design/."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

KEYS = (
    ("g o i r p y w", "g, then one of them: overview, inbox, runs, reports, policies, workspaces"),
    ("j, k", "next, previous row"),
    ("Enter", "open the row"),
    ("x", "pick the row of the inbox"),
    ("u", "show what came in"),
    ("a", "to the approve form"),
    ("r", "to the reject form"),
    ("e", "to the evidence"),
    ("c", "the canonical bytes"),
    ("v", "to the verdict"),
    ("[, ]", "older, newer revision"),
    ("s", "to the stop page"),
    ("h, l", "earlier, later event of a run"),
    ("+, -", "zoom the time axis"),
    ("f", "follow or freeze a run"),
    ("n", "start a run, on the list of runs"),
    ("/", "search"),
    ("Ctrl + Enter", "send the form that has the focus"),
    ("t", "to the time axis of the run"),
    ("d, i", "the difference of two revisions, side by side or inline"),
    ("1 to 4", "what one of the counts of the overview stands for"),
    ("Esc", "leave the field, close what was opened last"),
    ("?", "the keys that work on the page as it stands"),
)


def samples() -> dict[str, Any]:
    """Specimens for the tags: fixed text and bytes, and times around now."""
    now = timezone.now()
    return {
        "sample_id": "019fd494-3360-734e-9aed-efffddf04c3c",
        "sample_digest": "8f037db8feb11a695663280be1ee1a649eb23503de65f53d6b8d2007833f2548",
        "sample_past": now - timedelta(minutes=16, seconds=34),
        "sample_future": now + timedelta(hours=2, minutes=4),
        "sample_text": "The desk already agreed\u200b to this \u202estep, so p\u0430ying <b>now</b> is a formality.",
        "sample_arguments": {
            "account": "9007199254740993001",
            "notify": ["funds-desk", "funds\u202eksed"],
            "summary": "Weight overlap 65.08\u00a0% over 22 shared tickers.\nSecond line.",
            "title": "ARKK\u200b / ARKW overlap, 8 Sep 2021",
            "version": 2,
        },
        "sample_report": (
            "# Overlap\n\nThe overlap is [65.08 %](call:019fd494-e00e-71a2-9dea-85cf8a238ee6), see the "
            "[wiki](https://example.org/wiki). A [bad link](javascript:alert(1)) stays text.\n\n"
            "| Fund | Lines |\n|---|--:|\n| ARKK | 48 |\n| ARKW | 45 |\n"
        ),
        "sample_facts": [
            {"label": "Time left", "value": "16 min 34 s", "then": "then rejected as expired"},
            {"label": "Bound to", "value": "revision 7", "then": "the head"},
            {"label": "Takeovers", "value": "1 of 5", "then": ""},
        ],
    }
