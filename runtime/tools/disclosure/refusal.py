"""The one way in which a disclosure is refused."""

from typing import Self

from runtime.contracts import AgentInputRefused


class DisclosureRefused(AgentInputRefused):
    """The file can't be read as a holdings disclosure. Names the file, the line (from 1) and the reason."""

    def __init__(self, reason: str, line: int | None = None, source: str = "") -> None:
        self.reason = reason
        self.line = line
        self.source = source
        place = ", ".join(part for part in (source, f"line {line}" if line else "") if part)
        super().__init__(f"{place[0].upper()}{place[1:]}: {reason}" if place else reason)

    def of(self, source: str) -> Self:
        """The same refusal, naming the file it is about, e.g. `disclosure A`."""
        return type(self)(self.reason, self.line, source)
