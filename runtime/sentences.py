"""What notices say, and where they lead. The facts are ours: names of tools and people, never what an agent or a remote wrote."""

from collections.abc import Mapping
from uuid import UUID

from django.conf import settings

from accounts.states import NoticeKind, Subject
from runs.states import HoldReason
from runtime.stuck import Cause

_SENTENCES: dict[NoticeKind, str] = {
    NoticeKind.OPENED: "A call of {tool} waits for a decision.",
    NoticeKind.REMINDER: "A call of {tool} still waits for a decision.",
    NoticeKind.ESCALATED: "A call of {tool} waits for a decision, and nobody has decided in time.",
    NoticeKind.DECIDED: "{by} decided about a call of {tool}: {verdict}.",
    NoticeKind.ASSIGNED: "{by} gave a call of {tool} to {person} to look at.",
    NoticeKind.RELEASED: "{by} does not look at a call of {tool} any more. It still waits for a decision.",
    NoticeKind.DELEGATED: "{by} has {person} decide with their authority until {until}.",
    NoticeKind.UNKNOWN_CALL: "Nobody knows whether a call happened. A person has to say what is known of it.",
    NoticeKind.HELD: "A run is held: {reason}.",
    NoticeKind.STUCK: "A run can't go on by itself: {reason}.",
    NoticeKind.TEST: "This is a test that {by} asked for. Nothing happened.",
}
_ASKED_ANEW = "A call of {tool} that {person} looks at is asked about anew."
_EXPIRED = "The time to decide about a call of {tool} is over. It is not sent."
_OF_QUESTIONS: dict[NoticeKind, str] = {
    NoticeKind.OPENED: "An agent asks a question, by {tool}, and waits for an answer.",
    NoticeKind.REMINDER: "An agent still waits for the answer to a question that it asked by {tool}.",
    NoticeKind.ESCALATED: "An agent waits for the answer to a question that it asked by {tool}, and nobody has given one.",
    NoticeKind.DECIDED: "{by} closed a question that an agent asked by {tool}: {verdict}.",
    NoticeKind.STUCK: "Nobody had looked at a question that an agent asked by {tool} before its time was over.",
}
_UNANSWERED = "The time to answer a question that an agent asked by {tool} is over. It is told that nobody answered."
_STUCK: dict[str, str] = {
    Cause.QUEUE: "Runs do not move: {count} queued, the oldest since {since}, and no worker takes them.",
    Cause.DEADLINES: "Deadlines are not looked at: {count} passed, the oldest at {since}. Nothing is sent meanwhile.",
    Cause.LEASE: "A run does not move: its worker fell silent, and no other takes over.",
    Cause.SWEEP: "A run does not move: the sweep fails on it again and again, at “{step}”.",
    Cause.UNSEEN: "Nobody had looked at a call of {tool} before its time was over.",
}
HOLD: dict[HoldReason, str] = {
    HoldReason.UNCERTAIN_CALL: "nobody knows whether a call happened",
    HoldReason.RESUME_REFUSED: "something that it rests on does not hold any more",
    HoldReason.TAKEOVER_LIMIT: "its workers are lost again and again",
    HoldReason.BUDGET: "its budget has no room left",
    HoldReason.OBLIGATION_OPEN: "something that it promised is still open",
    HoldReason.PAUSED: "somebody paused it",
    HoldReason.SAVE_REFUSED: "its next revision can't be stored",
    HoldReason.SAVE_UNKNOWN: "nobody knows whether its last save was stored",
    HoldReason.STORE_ERROR: "the database refuses what it would store",
}
_PATHS = {
    Subject.WAIT: "/waits/{id}/",
    Subject.RUN: "/runs/{id}/",
    Subject.CALL: "/calls/{id}/",
    Subject.DELEGATION: "/delegations/",
    Subject.TENANT: "/",
    Subject.ENDPOINT: "/settings/notifications/{id}/",
}


def sentence(kind: str, facts: Mapping[str, str]) -> str:
    """A notice in words, on one line. It becomes the subject of a mail and the title of a message: what nobody would see, what turns a
    line around and what ends one is named by its code point.
    """
    words = {name: _seen(text) for name, text in {**facts, "verdict": facts.get("verdict", "").lower()}.items()}
    if facts.get("reason") in set(HoldReason):
        words["reason"] = HOLD[HoldReason(facts["reason"])]
    return _form(NoticeKind(kind), facts).format(**words)


def _seen(text: object) -> str:
    return "".join(char if char.isprintable() else f"[U+{ord(char):04X}]" for char in str(text))


def _form(kind: NoticeKind, facts: Mapping[str, str]) -> str:
    if kind == NoticeKind.ASSIGNED and facts["by"] == facts["person"]:
        return _ASKED_ANEW
    of_question = facts.get("asks") == "question"
    if kind == NoticeKind.DECIDED and facts["verdict"] == "expired":
        return _UNANSWERED if of_question else _EXPIRED
    if of_question and kind in _OF_QUESTIONS:
        return _OF_QUESTIONS[kind]
    return _STUCK.get(facts.get("reason", ""), _SENTENCES[kind])


def link(subject: str, id: UUID) -> str:
    """The page where a person can look and act. Opening it changes nothing."""
    return f"{settings.PUBLIC_URL}{path_of(subject, id)}"


def path_of(subject: str, id: UUID) -> str:
    """The path of that page."""
    return _PATHS[Subject(subject)].format(id=id)
