"""Secrets that tools use: named in the arguments, looked up for one try, and repeated nowhere afterwards (D-085)."""

import json
from collections.abc import Sequence
from dataclasses import replace

from django.conf import settings

from approvals.policies import without
from checkpoints.envelope import withheld
from runs.canonical import canonical
from runtime.contracts import ANSWER_BYTES, SecretRef, ToolFailed, ToolOutcome
from runtime.gateways.secrets import SecretMissing, resolve

REPEATED = "withheld: it repeats a secret that was sent"
SHORTEST = 8  # a shorter one could not be told from other words of an answer


class Keyring:
    """The secrets of one try. What an installation has named (SIGNALBOX_TOOL_SECRETS) can be used; nothing else can.

    `hidden`: texts of the arguments that not everybody may see, which what is stored to be read is stored without.
    """

    def __init__(self, hidden: Sequence[str] = ()) -> None:
        self._used: list[str] = []
        self._hidden = hidden

    def __call__(self, ref: SecretRef) -> str:
        """The secret that arguments name. Raises ToolFailed: nothing was sent."""
        place = settings.TOOL_SECRETS.get(ref.secretRef)
        if place is None:
            raise ToolFailed(f"No secret is called {ref.secretRef} here. Nothing was sent.")
        try:
            secret = resolve(place)
        except SecretMissing as error:
            raise ToolFailed(f"The secret {ref.secretRef} can't be read. {error} Nothing was sent.") from error
        if len(secret) < SHORTEST:
            raise ToolFailed(f"The secret {ref.secretRef} is shorter than {SHORTEST} characters. Nothing was sent.")
        self._used.append(secret)
        return secret

    def repeated_in(self, said: bytes) -> bool:
        """Whether an answer holds a secret that this try has used, as it is or written as JSON."""
        return any(form.encode() in said for secret in self._used for form in (secret, json.dumps(secret)[1:-1]))

    def readable(self, text: str) -> str:
        """A text from outside as it may be stored to be read: without a secret, one of a known form or one of this try, and
        without what is masked of the arguments.
        """
        return REPEATED if self.repeated_in(text.encode("utf-8", "replace")) else without(withheld(text), self._hidden)

    def answered(self, outcome: ToolOutcome) -> ToolOutcome:
        """What a tool gave, as the run may keep it and the model may read it."""
        report, ref = outcome.report, outcome.external_ref
        repeated = bool(self._used) and self.repeated_in(canonical(outcome.value, max_bytes=ANSWER_BYTES))
        return replace(
            outcome,
            value={"withheld": REPEATED} if repeated else outcome.value,
            target=self.readable(outcome.target),
            remark=self.readable(outcome.remark),
            external_ref=None if ref is None else self.readable(ref),
            report=replace(report, title=self.readable(report.title)) if report else None,
        )
