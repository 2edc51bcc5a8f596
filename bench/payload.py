"""The texts that every contender's model and tool give. Standard library only: peers run it in their own environment."""

import random

STEPS = 20
PAIRS = STEPS // 2
_WORDS = [
    "run",
    "step",
    "tool",
    "call",
    "model",
    "state",
    "lease",
    "fence",
    "revision",
    "checkpoint",
    "digest",
    "approval",
    "receipt",
    "report",
    "version",
    "intent",
    "wait",
    "human",
    "operator",
    "cancel",
    "retry",
    "budget",
    "search",
    "result",
    "table",
    "figure",
    "source",
    "claim",
    "evidence",
    "draft",
    "section",
    "summary",
    "the",
    "of",
    "and",
    "to",
    "in",
    "a",
    "is",
    "that",
    "for",
    "it",
    "as",
    "was",
    "with",
    "be",
    "by",
    "on",
    "not",
    "he",
    "his",
    "but",
    "at",
    "are",
    "this",
    "have",
    "from",
    "or",
    "had",
    "an",
    "they",
    "which",
    "one",
    "you",
]


# States of 2 kB and of 500 kB.
SMALL_MESSAGES, LARGE_MESSAGES = 4, 1000


def messages(count: int) -> list[dict[str, str]]:
    """So many messages of about 500 bytes each."""
    return [{"id": f"m{number}", "content": prose(450, number)} for number in range(count)]


def prose(size: int, seed: int) -> str:
    """Text of exactly this many bytes that compresses about as prose does."""
    words = random.Random(seed)  # noqa: S311  the same text in every run
    parts: list[str] = []
    while sum(map(len, parts)) + len(parts) <= size:
        number = str(words.randrange(10000)) if words.random() < 0.15 else ""
        parts.append(words.choice(_WORDS) + number)
    return " ".join(parts)[:size]


MODEL_TEXT = prose(500, 1)
TOOL_TEXT = prose(500, 2)
