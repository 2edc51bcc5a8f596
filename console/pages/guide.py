"""The words, keys and specimens of the style guide at /design/."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

WORDS = (
    ("Run", "One admitted execution of an agent, from its inputs to its end."),
    ("Thread", "What carries runs one after the other; at most one of them lives."),
    ("Lease", "The right of one worker to go on with a run now. It expires by the database's clock."),
    ("Fence", "The number of the lease. Each write carries it; an older one is refused."),
    ("Checkpoint", "Where a run stands, written down so that any worker can go on from it. Never changed."),
    ("Revision", "The number of a checkpoint in its run, from 1."),
    ("Head", "The one revision that can be resumed."),
    ("Digest", "The SHA-256 over the exact bytes. Two equal digests are the same bytes."),
    ("Receipt", "What is stored of one model call or tool call, with all its attempts."),
    ("Logical call", "One intent with one key. It may need several attempts and has at most one result."),
    ("Attempt", "One try of a call. It is stored before anything is sent."),
    ("UNCERTAIN", "Sent, and no stored answer. It may have happened or not."),
    ("Verdict", "What a person or a probe says about an uncertain call, with evidence."),
    ("Effect class", "What a tool may do outside, and so what is done when no answer comes."),
    ("Wait", "One call that waits for one decision, bound to a revision and to its exact arguments."),
    ("Decision", "What people said about a wait: approve or reject, with a reason."),
    ("Wakeup", "A stored reason to look at a run again."),
    ("Hold", "A run that a fact blocks until a person has looked."),
    ("Settle", "Close a run by what is known, without going on."),
    ("Resume", "Go on from the head. Live calls may be sent."),
    ("Retry", "Send the same logical call again, with the same key."),
    ("Obligation", "A promise of the run. It is fulfilled by a call, or released by a person."),
    ("Constraint", "A limit that the run accepted, with its source. Policy holds the ones that name a tool."),
    (
        "Assumption",
        "What the run rests on, with its source. Once withdrawn, nothing more with an effect is sent on it.",
    ),
)

KEYS = (
    ("g then o, i, r, p, w", "overview, inbox, runs, reports, workspaces"),
    ("j, k", "next, previous row"),
    ("Enter", "open the row"),
    ("u", "show what came in"),
    ("a", "to the approve form"),
    ("r", "to the reject form"),
    ("e", "to the evidence"),
    ("c", "the canonical bytes"),
    ("v", "to the verdict"),
    ("[, ]", "older, newer revision"),
    ("s", "to the stop page"),
    ("h, l", "earlier, later event of a run"),
    ("f", "follow or freeze a run"),
    ("/", "search"),
    ("Ctrl + Enter", "send the form that has the focus"),
    ("Esc", "leave the field"),
    ("?", "this page"),
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
