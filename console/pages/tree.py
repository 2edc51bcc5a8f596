"""GET /runs/<id>/lineage/: where a run comes from and what came from it, as a tree of continuations, forks and children."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from accounts.states import Actor
from console.pages.room import page, respond
from runs.models import Run
from runs.selectors import access_run, lineage_of

PANELS = {"lineage-live": "pages/lineage/live.html"}
NODES = 200


@dataclass
class Node:
    """A run in the tree. Continuations go on at their source's level, since each run has at most one; forks and children
    lie below. `how` says what it is to the run above or before it.
    """

    run: Run
    how: str
    level: int
    current: bool
    below: list["Node"] = field(default_factory=list)
    position: int = 1
    siblings: int = 1


@page
def lineage_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """The tree of the lineage, at most NODES runs of it, this one marked; and the other lineages of its thread."""
    run = access_run(actor=actor, id=id)
    family = lineage_of(run, limit=NODES + 1)
    others = Run.objects.filter(thread_id=run.thread_id).exclude(lineage_id=run.lineage_id)
    context = {
        "run": run,
        "topic": f"run:{id}",
        "self_url": request.path,
        "steps": list(steps_of(tree_of(family[:NODES], run.id))),
        "count": len(family[:NODES]),
        "more": len(family) > NODES,
        "others": others.order_by("-created_at", "-id")[:20],
    }
    return respond(request, actor, "pages/lineage/page.html", context, PANELS)


def tree_of(family: Sequence[Run], current: UUID) -> list[Node]:
    """The runs as a forest, the oldest first: a run whose source is not among them stands at the top."""
    known = {run.id for run in family}
    below: dict[UUID | None, list[Run]] = {}
    for run in family:
        source = _source(run)
        below.setdefault(source if source in known else None, []).append(run)
    return _level(below.get(None, []), below, current, 1)


@dataclass(frozen=True)
class Step:
    """One step of writing the tree down as nested lists: `open` or `close` a list, or a node, whose item ends after its
    own list where it `holds` one. A tree may be as deep as it is long, so templates do not nest with it.
    """

    kind: str
    node: Node | None = None
    holds: bool = False


def steps_of(nodes: Sequence[Node]) -> Iterator[Step]:
    """A level of the tree, with everything below it."""
    yield Step("open")
    for node in nodes:
        yield Step("node", node, bool(node.below))
        if node.below:
            yield from steps_of(node.below)
            yield Step("end")
    yield Step("close")


def _source(run: Run) -> UUID | None:
    return run.continued_from_id or run.forked_from_id or run.parent_run_id


def _level(starts: Iterable[Run], below: Mapping[UUID | None, Sequence[Run]], current: UUID, level: int) -> list[Node]:
    """The nodes of one level: each run that begins there, and after it the chain of runs that continue it."""
    nodes: list[Node] = []
    for start in starts:
        chain: Run | None = start
        while chain is not None:
            come = below.get(chain.id, ())
            node = Node(chain, _how(chain), level, chain.id == current)
            node.below = _level([run for run in come if not run.continued_from_id], below, current, level + 1)
            nodes.append(node)
            chain = next((run for run in come if run.continued_from_id), None)
    for position, node in enumerate(nodes, 1):
        node.position, node.siblings = position, len(nodes)
    return nodes


def _how(run: Run) -> str:
    if run.continued_from_id:
        return "continues the one before"
    if run.forked_from_id:
        return f"forked at revision {run.forked_from_revision}"
    return "child" if run.parent_run_id else "started"
