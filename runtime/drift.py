"""What a run accepted beside what its agent declares now (guard 13). What is carried wins; the difference is shown."""

from collections.abc import Iterable
from dataclasses import dataclass

from checkpoints.states import SourceKind
from runs.canonical import canonical, digest
from runtime.contracts import AgentSpec


@dataclass(frozen=True)
class Drift:
    """Statements of the agent. `carried`: the run keeps them, they are not declared now; `declared`: it never accepted them."""

    carried: tuple[str, ...]
    declared: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.carried or self.declared)

    @property
    def digest(self) -> str:
        """Names the difference, so that it is recorded once."""
        return digest(canonical({"carried": list(self.carried), "declared": list(self.declared)}))


def drift_of(accepted: Iterable[tuple[str, str, Iterable[str]]], spec: AgentSpec) -> Drift:
    """The difference of (source kind, statement, denied names) of each accepted commitment to what the agent declares now."""
    carried = [(text, frozenset(denies)) for kind, text, denies in accepted if kind == SourceKind.AGENT]
    declared = [(limit.statement, frozenset(limit.denies)) for limit in spec.constraints]
    declared += [(statement, frozenset()) for statement in spec.assumptions]
    return Drift(
        tuple(text for text, denies in carried if (text, denies) not in declared),
        tuple(text for text, denies in declared if (text, denies) not in carried),
    )
