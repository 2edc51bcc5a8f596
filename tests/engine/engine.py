"""One engine in this process, on a database of its own: its people, and what one does with a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn
from uuid import UUID

from django.db import connection

from accounts.errors import Refused
from accounts.models import AuditEvent, Tenant
from accounts.selectors import actor_named
from accounts.services import member_set, tenant_create
from accounts.states import Actor, Role
from approvals.models import Wait
from approvals.services import Decided, Seen, Voted
from approvals.states import DecisionVerdict
from checkpoints.models import Checkpoint, Head
from checkpoints.selectors import load_head
from receipts.models import Attempt, ModelCall, ToolCall
from receipts.states import FollowUp, Verdict
from runs.models import Lease, Run
from runtime.contracts import ModelRequest
from runtime.conversation import history_of, rebuild
from runtime.loop import drive
from runtime.services import (
    GoalRevised,
    Reconciled,
    Released,
    Replay,
    Settled,
    Started,
    StartRequest,
    StopState,
    SuccessorRequest,
    Upload,
    VerdictRequest,
    call_reconcile,
    checkpoint_migrate,
    effect_repeat,
    goal_revise,
    obligation_release,
    retention_of,
    run_continue,
    run_end_settled,
    run_fork,
    run_repin,
    run_replay,
    run_resume,
    run_retain,
    run_start,
    run_stop,
    wait_decide,
)
from tests.scripted import SCRIPT

STARTER = {Role.OPERATOR}
EVERYTHING = {Role.OPERATOR, Role.APPROVER, Role.RECONCILER}
PEOPLE = {
    "olga": EVERYTHING,
    "otto": STARTER,
    "ann": {Role.APPROVER},
    "abe": {Role.APPROVER},
    "rita": {Role.RECONCILER},
    "rolf": {Role.RECONCILER, Role.APPROVER},
    "vera": {Role.VIEWER},
    "gail": {Role.GOVERNANCE},
}


At = Callable[[str, Callable[[], None]], None]


class Killed(BaseException):
    """The worker ends here, in the middle of whatever it does."""


def kill() -> NoReturn:
    """End this worker, as SIGKILL would."""
    raise Killed


@dataclass
class Engine:
    """A tenant with its people. `hints` are the runs that the queue was asked to look at, in order."""

    tenant: Tenant
    hints: list[UUID] = field(default_factory=list)

    def person(self, name: str) -> Actor:
        """Somebody of PEOPLE."""
        return actor_named(username=f"{name}-{self.tenant.slug}", door="page")

    # ── acts ──

    def start(
        self, agent: str = "told", by: str = "olga", inputs: Mapping[str, Upload] | None = None, workspace: str = ""
    ) -> UUID:
        """Start a run; it is queued."""
        outcome = run_start(actor=self.person(by), wanted=StartRequest(agent, inputs or {}, workspace=workspace))
        assert isinstance(outcome, Started), outcome
        return outcome.run_id

    def run(self, *answers: Any, agent: str = "told", by: str = "olga") -> UUID:
        """Tell the model's answers, start a run and drive it as far as it goes."""
        SCRIPT.tell(*answers)
        run_id = self.start(agent, by)
        drive(run_id)
        return run_id

    def decide(
        self, wait: Wait, verdict: str = "APPROVE", by: str = "ann", seen: Seen | None = None, reason: str = "I read it"
    ) -> Decided | Voted | Refused:
        """Decide a wait, by default having seen exactly what it is bound to."""
        return wait_decide(
            actor=self.person(by),
            wait_id=wait.id,
            verdict=DecisionVerdict(verdict),
            seen=seen or shown(wait),
            reason=reason,
        )

    def approve(self, run_id: UUID) -> Decided:
        """Approve the open wait of a run."""
        outcome = self.decide(open_wait(run_id))
        assert isinstance(outcome, Decided), outcome
        return outcome

    def stop(self, run_id: UUID, by: str = "otto", reason: str = "not needed") -> StopState | Refused:
        return run_stop(actor=self.person(by), run_id=run_id, reason=reason)

    def reconcile(
        self, call: ToolCall, verdict: str, then: str = "NONE", by: str = "rolf", external_ref: str = ""
    ) -> Reconciled | Refused:
        said = VerdictRequest(Verdict(verdict), "I looked", external_ref, FollowUp(then))
        return call_reconcile(actor=self.person(by), call_id=call.id, said=said)

    def revise(self, run_id: UUID, goal: str, by: str = "otto") -> GoalRevised | Refused:
        return goal_revise(actor=self.person(by), run_id=run_id, goal=goal, reason="it changed")

    def release(self, run_id: UUID, by: str = "rita") -> Released | Refused:
        """Release the first obligation of a run that is open, or the first one."""
        obligations = Run.objects.get(id=run_id).obligations.order_by("promised_at")
        obligation = obligations.filter(status="OPEN").first() or obligations[0]
        return obligation_release(actor=self.person(by), obligation_id=obligation.id, reason="not needed any more")

    def carry_on(self, run_id: UUID, by: str = "otto", **wanted: Any) -> Any:
        """Continue an ended run as a new one."""
        return run_continue(
            actor=self.person(by), run_id=run_id, wanted=SuccessorRequest(**({"reason": "not done"} | wanted))
        )

    def fork(self, run_id: UUID, revision: int, by: str = "otto", **wanted: Any) -> Any:
        """Fork a revision of a run into a new one."""
        asked = SuccessorRequest(**({"reason": "try it differently"} | wanted))
        return run_fork(actor=self.person(by), run_id=run_id, revision=revision, wanted=asked)

    def migrate(self, run_id: UUID, by: str = "otto", reason: str = "the format was raised") -> Any:
        return checkpoint_migrate(actor=self.person(by), run_id=run_id, reason=reason)

    def repin(self, run_id: UUID, by: str = "otto", reason: str = "it was deployed anew") -> Any:
        return run_repin(actor=self.person(by), run_id=run_id, reason=reason)

    def repeat(self, call: ToolCall, by: str = "otto", reason: str = "they want it twice") -> Any:
        return effect_repeat(actor=self.person(by), call_id=call.id, reason=reason)

    def replay(self, run_id: UUID, by: str = "vera") -> Replay:
        return run_replay(actor=self.person(by), run_id=run_id)

    def resume(self, run_id: UUID, by: str = "otto") -> Any:
        return run_resume(actor=self.person(by), run_id=run_id, reason="try again")

    def settle(self, run_id: UUID, by: str = "otto", reason: str = "nobody needs it") -> Settled | Refused:
        return run_end_settled(actor=self.person(by), run_id=run_id, reason=reason)

    def retain(self, run_id: UUID, by: str = "gail", reason: str = "old notes go") -> Any:
        return run_retain(actor=self.person(by), run_id=run_id, reason=reason)

    def would_go(self, run_id: UUID, by: str = "vera") -> list[int]:
        """The revisions that retention would let go now, the newest first."""
        return [body.revision for body in retention_of(actor=self.person(by), run_id=run_id).going]

    # ── what is stored ──

    def audited(self) -> list[tuple[str, str, Any]]:
        """(action, actor, code of the refusal) of every audit event, in order."""
        rows = AuditEvent.objects.filter(tenant=self.tenant).order_by("seq")
        return [(row.action, row.actor.partition("-")[0], row.detail.get("code")) for row in rows]


def people(tenant_slug: str) -> Tenant:
    """A tenant with everybody of PEOPLE in it."""
    tenant = tenant_create(slug=tenant_slug, name=tenant_slug.title())
    for name, roles in PEOPLE.items():
        member_set(tenant=tenant, username=f"{name}-{tenant_slug}", password=None, roles=frozenset(roles))
    return tenant


def shown(wait: Wait) -> Seen:
    """What a page shows of a wait."""
    return Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest)


def open_wait(run_id: UUID) -> Wait:
    return Wait.objects.get(run_id=run_id, status="OPEN")


def run_now(run_id: UUID) -> Run:
    return Run.objects.get(id=run_id)


def call_named(run_id: UUID, label: str) -> ToolCall:
    """The newest call with this label."""
    return ToolCall.objects.filter(run_id=run_id, step_name__endswith=f"/{label}").latest("ordinal")


def phases(run_id: UUID) -> list[str]:
    return list(Checkpoint.objects.filter(run_id=run_id).order_by("revision").values_list("phase", flat=True))


def head_of(run_id: UUID) -> Head:
    return Head.objects.get(run_id=run_id)


def attempts_of(call: ToolCall) -> list[tuple[int, str | None, str]]:
    """(number, outcome, authorised by) of a call's attempts."""
    rows = Attempt.objects.filter(tool_call=call).order_by("attempt_no")
    return [(row.attempt_no, row.outcome, row.authorised_by) for row in rows]


def expire_lease(run_id: UUID) -> None:
    """Let the time of a run's lease be over, by the database's clock."""
    sql("UPDATE runs_lease SET expires_at = clock_timestamp() - interval '1 second' WHERE run_id = %s", run_id)


def demand(wait: Wait, **demanded: Any) -> Wait:
    """Have an open wait ask for something else of people, as a policy could when it opened."""
    changes = ", ".join(f"{column} = %s" for column in demanded) or "id = id"
    sql_past_triggers(f"UPDATE approvals_wait SET {changes} WHERE id = %s", *demanded.values(), wait.id)
    return Wait.objects.get(id=wait.id)


def pass_deadline(wait: Wait) -> None:
    """Let the time to decide be over, by the database's clock."""
    sql("UPDATE approvals_wait SET deadline = clock_timestamp() - interval '1 second' WHERE id = %s", wait.id)


def pass_retry(run_id: UUID) -> None:
    """Let the time before the next try of a run's calls and turns be over, by the database's clock."""
    for table in ("receipts_toolcall", "receipts_modelcall"):
        sql(f"UPDATE {table} SET retry_at = clock_timestamp() WHERE run_id = %s AND status = 'RETRY_WAIT'", run_id)
    sql("UPDATE runs_run SET due_at = clock_timestamp() WHERE id = %s AND status = 'QUEUED'", run_id)


def pass_time_limit(call: ToolCall) -> None:
    """Let the time in which a call's attempts may still be carried out be over, and the run be due again."""
    sql_past_triggers(
        "UPDATE receipts_attempt SET dispatched_at = dispatched_at - interval '1 hour' WHERE tool_call_id = %s", call.id
    )
    pass_retry(call.run_id)


def lease_of(run_id: UUID) -> Lease:
    return Lease.objects.get(run_id=run_id)


def sql(statement: str, *params: Any) -> list[tuple[Any, ...]]:
    """Send a statement past every service."""
    with connection.cursor() as cursor:
        cursor.execute(statement, list(params))
        return cursor.fetchall() if cursor.description else []


def sql_past_triggers(statement: str, *params: Any) -> None:
    """Change the store past its guards, as somebody who owns the database could."""
    sql("SET session_replication_role = replica")
    try:
        sql(statement, *params)
    finally:
        sql("SET session_replication_role = origin")


def watch_requests() -> list[int]:
    """Compare the conversation of every request with the one that the store gives; the turns where they differ."""
    differences: list[int] = []

    def compare(request: ModelRequest) -> None:
        run = Run.objects.get(id=ModelCall.objects.latest("created_at").run_id)
        through = load_head(run).snapshot.compacted_through
        if list(request.history) != rebuild(history_of(run), compacted_through=through).messages:
            differences.append(request.turn_no)

    SCRIPT.watch = compare
    return differences


def counts() -> dict[str, int]:
    """How many rows each table of the engine has."""
    tables = sql(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^(accounts|runs|receipts|checkpoints|approvals)_' "
        "ORDER BY relname"
    )
    return {table: sql(f"SELECT count(*) FROM {table}")[0][0] for (table,) in tables}


def added(before: dict[str, int]) -> dict[str, int]:
    """How many rows each table has gained (or lost) since, where that is not none."""
    return {table: count - before[table] for table, count in counts().items() if count != before[table]}
