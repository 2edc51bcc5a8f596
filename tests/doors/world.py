"""Two tenants with people of every role, and runs that this process drives itself, for the tests of the doors."""

import contextlib
import io
import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.core.management import load_command_class
from django.test import Client

from accounts.models import Membership, Tenant
from accounts.selectors import actor_named
from accounts.services import member_set, tenant_create, token_create
from accounts.states import Actor, Role
from approvals.models import Wait
from approvals.services import Decided, Seen
from approvals.states import DecisionVerdict
from receipts.models import ToolCall
from runs.models import Run
from runtime.loop import drive
from runtime.services import Started, StartRequest, Upload, run_start, wait_decide
from tests.unit.outside_world import OutsideWorld

ROWS = "date,fund,company,ticker,shares,market value($),weight(%)\n"
ALDER = ROWS + (
    "2026-06-30,ALDR,NORTHWIND GRID CO,NWGC,100,6000,60.0\n"
    "2026-06-30,ALDR,CINDERFORD STORAGE,CNDF,100,3950,39.5\n"
    "2026-06-30,ALDR,US DOLLAR CASH,,50,50,0.5\n"
)
BIRCH = ROWS + (
    "2026-06-30,BRCH,NORTHWIND GRID CO,NWGC,100,4500,45.0\n2026-06-30,BRCH,QUARRY ROBOTICS,QRYR,100,5500,55.0\n"
)
ALL = frozenset({Role.OPERATOR, Role.APPROVER, Role.RECONCILER})
OPERATOR, STRANGER = "operator", "stranger"


@dataclass
class Doors:
    """People, and runs in the states that an act needs. Every role of the first tenant has a person named like it."""

    tenant: Tenant
    elsewhere: Tenant
    outside: OutsideWorld
    tokens: dict[str, str]

    # ── runs ──

    def started(self, by: str = OPERATOR, agent: str = "fund_comparison") -> UUID:
        """A run that is queued."""
        inputs = {"a": Upload("alder.csv", ALDER.encode()), "b": Upload("birch.csv", BIRCH.encode())}
        outcome = run_start(actor=person(by), wanted=StartRequest(agent, inputs))
        assert isinstance(outcome, Started), outcome
        return outcome.run_id

    def waiting(self, by: str = OPERATOR) -> Wait:
        """The open wait of a fresh run."""
        run_id = self.started(by)
        drive(run_id)
        return Wait.objects.select_related("run", "tool_call").get(run_id=run_id, status="OPEN")

    def asking(self, by: str = OPERATOR) -> Wait:
        """The open question of a fresh run."""
        run_id = self.started(by, "asking_fund_comparison")
        drive(run_id)
        return Wait.objects.select_related("run", "tool_call").get(run_id=run_id, status="OPEN", kind="QUESTION")

    def unknown(self, by: str = OPERATOR) -> ToolCall:
        """A call that was executed and never answered; its run is held."""
        wait = self.waiting(by)
        self._approve(wait, by)
        self.outside.control(mode="drop", times=1)
        drive(wait.run_id)
        call = ToolCall.objects.select_related("run").get(id=wait.tool_call_id)
        assert (call.status, call.run.status) == ("UNCERTAIN", "HELD")
        return call

    def completed(self, by: str = OPERATOR) -> Run:
        """A run that published what it promised."""
        wait = self.waiting(by)
        self._approve(wait, by)
        drive(wait.run_id)
        run = Run.objects.get(id=wait.run_id)
        assert run.status == "COMPLETED", (run.status, run.hold_detail)
        return run

    def _approve(self, wait: Wait, by: str) -> None:
        seen = Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest)
        outcome = wait_decide(
            actor=person(by), wait_id=wait.id, verdict=DecisionVerdict.APPROVE, seen=seen, reason="read it"
        )
        assert isinstance(outcome, Decided), outcome

    # ── doors ──

    def api(self, method: str, path: str, body: Any = None, *, by: str = OPERATOR, **headers: str) -> Any:
        """Ask the API with the token of a person; `body` goes as JSON. The response."""
        content = b"" if body is None else json.dumps(body).encode()
        return self.raw(method, path, content, by=by, **headers)

    def raw(self, method: str, path: str, content: bytes, *, by: str = OPERATOR, **headers: str) -> Any:
        """The same with exactly these bytes as JSON."""
        sent = {"Authorization": f"Bearer {self.tokens[by]}", **headers}
        return Client().generic(method, f"/api/v1{path}", content, "application/json", headers=sent)

    def start(self, fields: dict[str, Any], *, by: str = OPERATOR, **headers: str) -> Any:
        """POST a start as the form that it is."""
        sent = {"Authorization": f"Bearer {self.tokens[by]}", **headers}
        return Client().post("/api/v1/runs/", fields, headers=sent)


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def manage(*argv: object) -> Ran:
    """Run a management command as manage.py does, in this process."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    noun, *rest = (str(part) for part in argv)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            load_command_class("console", noun).run_from_argv(["manage.py", noun, *rest])
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Ran(code, out.getvalue(), err.getvalue())


def person(name: str) -> Actor:
    return actor_named(username=name, door="page")


def make_doors(outside: OutsideWorld) -> Doors:
    """The tenants, a person with everything in each, and a person for each role alone."""
    tenant, elsewhere = tenant_create(slug="tour", name="Tour"), tenant_create(slug="elsewhere", name="Elsewhere")
    members = {OPERATOR: member_set(tenant=tenant, username=OPERATOR, password=None, roles=ALL)}
    members[STRANGER] = member_set(tenant=elsewhere, username=STRANGER, password=None, roles=frozenset(Role))
    for role in Role:
        name = f"only-{role}"
        members[name] = member_set(tenant=tenant, username=name, password=None, roles=frozenset({role}))
    return Doors(tenant, elsewhere, outside, {name: _token(member) for name, member in members.items()})


def _token(member: Membership) -> str:
    return token_create(membership=member, name="tests")
