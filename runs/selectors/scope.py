"""Reads of stops and pauses of scopes: what stands over a run, which runs are in a scope, how far an act has got."""

from collections.abc import Sequence
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from accounts.errors import NotFound
from accounts.states import Actor, Permission
from runs.models import Agent, ControlRequest, Run, ScopeControl, Thread
from runs.states import LIVE_RUN, OPEN_CONTROL, ControlKind, Scope, ScopeKind, ScopeStatus


def scope_controls_visible(actor: Actor) -> QuerySet[ScopeControl]:
    """The acts on scopes of the actor's tenant; none without the permission to read."""
    if not actor.may(Permission.READ):
        return ScopeControl.objects.none()
    return ScopeControl.objects.filter(tenant_id=actor.tenant_id).select_related("agent", "thread__agent", "tenant")


def access_scope_control(*, actor: Actor, id: UUID) -> ScopeControl:
    """The act on a scope with this id in the actor's tenant. Raises NotFound, for a foreign one as for a missing one."""
    control = scope_controls_visible(actor).filter(id=id).first()
    if control is None:
        raise NotFound
    return control


def access_scope(*, actor: Actor, kind: ScopeKind, of: str = "") -> Scope:
    """The scope that a user named: an agent by its key, a thread by its id, a tenant by nothing. Raises NotFound."""
    if kind == ScopeKind.TENANT:
        return Scope(actor.tenant_id, kind)
    if not actor.may(Permission.READ):
        raise NotFound
    if kind == ScopeKind.AGENT:
        agent = Agent.objects.filter(tenant_id=actor.tenant_id, key=of).first()
        if agent is None:
            raise NotFound
        return Scope(actor.tenant_id, kind, agent_id=agent.id)
    thread = Thread.objects.filter(tenant_id=actor.tenant_id, id=_uuid(of)).first()
    if thread is None:
        raise NotFound
    return Scope(actor.tenant_id, kind, thread_id=thread.id)


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise NotFound from error


def scope_of(control: ScopeControl) -> Scope:
    """What an act is about."""
    return Scope(control.tenant_id, ScopeKind(control.scope), control.agent_id, control.thread_id)


def scope_name(scope: Scope) -> str:
    """What a scope is called, as part of a sentence. Agent and thread are named by their keys, which people chose."""
    if scope.agent_id is not None:
        return f"the agent {Agent.objects.values_list('key', flat=True).get(id=scope.agent_id)}"
    if scope.thread_id is not None:
        return f"the thread {Thread.objects.values_list('key', flat=True).get(id=scope.thread_id)}"
    return "everything of this tenant"


def standing_control(scope: Scope, kind: ControlKind) -> ScopeControl | None:
    """The stop or pause that stands of exactly this scope, or None."""
    return standing_controls_of(scope).filter(kind=kind).first()


def standing_controls_of(scope: Scope) -> QuerySet[ScopeControl]:
    """The stop and the pause that stand of exactly this scope: one of each kind at most."""
    standing = ScopeControl.objects.filter(tenant_id=scope.tenant_id, status=ScopeStatus.STANDING)
    if scope.agent_id is not None:
        return standing.filter(agent_id=scope.agent_id)
    if scope.thread_id is not None:
        return standing.filter(thread_id=scope.thread_id)
    return standing.filter(scope=ScopeKind.TENANT)


def standing_over(run: Run) -> Sequence[ScopeControl]:
    """What stands over a run, the oldest first: acts on its tenant, its agent and its thread. In the newest snapshot."""
    standing = ScopeControl.objects.filter(tenant_id=run.tenant_id, status=ScopeStatus.STANDING)
    over = Q(scope=ScopeKind.TENANT) | Q(agent__versions=run.agent_version_id) | Q(thread=run.thread_id)
    return list(standing.filter(over).order_by("accepted_at", "id").distinct())


def standing_pause(run: Run) -> ScopeControl | None:
    """The pause that stands over a run, or None."""
    return next((one for one in standing_over(run) if one.kind == ControlKind.PAUSE), None)


def scope_control_now(id: UUID) -> ScopeControl:
    """An act on a scope as it is stored now."""
    return ScopeControl.objects.get(id=id)


def standing_controls() -> Sequence[ScopeControl]:
    """Every act on a scope that stands, in any tenant: for the sweep."""
    return list(ScopeControl.objects.filter(status=ScopeStatus.STANDING).order_by("accepted_at", "id"))


def runs_of_scope(scope: Scope) -> QuerySet[Run]:
    """The runs of a scope, live and ended."""
    runs = Run.objects.filter(tenant_id=scope.tenant_id)
    if scope.agent_id is not None:
        runs = runs.filter(agent_version__agent_id=scope.agent_id)
    return runs.filter(thread_id=scope.thread_id) if scope.thread_id is not None else runs


def runs_to_reach(control: ScopeControl, limit: int) -> list[UUID]:
    """The live runs of a standing act that it has not reached yet, the oldest first."""
    found = _unreached(control).order_by("created_at", "id")
    return list(found.values_list("id", flat=True)[:limit])


def runs_left(control: ScopeControl) -> int:
    """How many live runs an act has not reached yet. None once it was lifted."""
    return _unreached(control).count() if control.status == ScopeStatus.STANDING else 0


def _unreached(control: ScopeControl) -> QuerySet[Run]:
    """A run that is being stopped already needs no other stop, unless this one does not wait and that one does; a run that is
    being stopped, or is paused already, needs no pause.
    """
    stops = _open(kind="STOP") if control.aborted_at is None else _open(kind="STOP").filter(aborted_at__isnull=False)
    found = runs_of_scope(scope_of(control)).filter(~Exists(stops), status__in=sorted(LIVE_RUN))
    return found.filter(~Exists(_open(kind="PAUSE"))) if control.kind == ControlKind.PAUSE else found


def _open(*, kind: str) -> QuerySet[ControlRequest]:
    return ControlRequest.objects.filter(run=OuterRef("id"), kind=kind, status__in=OPEN_CONTROL)


def pauses_to_take_back(limit: int = 200) -> list[tuple[UUID, UUID]]:
    """(run, act) of open pauses that carry out an act which was lifted, the oldest run first."""
    left = ControlRequest.objects.filter(
        kind="PAUSE", status__in=OPEN_CONTROL, scope_control__status=ScopeStatus.LIFTED
    )
    return list(left.order_by("run__created_at", "run_id").values_list("run_id", "scope_control_id")[:limit])


def pauses_of_scope(control_id: UUID, limit: int | None = None) -> list[UUID]:
    """The runs whose open pause carries out this act, the oldest first: a parent before its children."""
    rows = ControlRequest.objects.filter(kind="PAUSE", status__in=OPEN_CONTROL, scope_control_id=control_id)
    return list(rows.order_by("run__created_at", "run_id").values_list("run_id", flat=True)[:limit])
