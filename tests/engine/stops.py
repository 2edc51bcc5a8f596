"""What a stop leaves behind."""

from uuid import UUID

from receipts.models import Attempt
from runs.models import ControlRequest, RunTransition
from runtime.loop import drive
from runtime.services import run_abort
from tests.engine.engine import Engine, lease_of, run_now, sql
from tests.engine.races import Aside, Gate
from tests.scripted import SCRIPT, calls, went_well


def the_stop(run_id: UUID) -> ControlRequest:
    return ControlRequest.objects.get(run_id=run_id)


def causes(run_id: UUID) -> list[str]:
    return list(RunTransition.objects.filter(run_id=run_id).order_by("id").values_list("cause", flat=True))


def assert_stopped(run_id: UUID) -> None:
    """The run is closed, and nothing of it is left open."""
    run = run_now(run_id)
    assert (run.status, run.end_reason) == ("CANCELLED", "stopped")
    assert the_stop(run_id).status == "SETTLED"
    assert lease_of(run_id).owner is None
    assert not run.waits.filter(status__in=["OPEN", "APPROVED", "REJECTED"]).exists()
    assert not run.wakeups.filter(status="PENDING").exists()
    assert not run.tool_calls.filter(status__in=["PROPOSED", "AWAITING_APPROVAL", "RETRY_WAIT", "DISPATCHED"]).exists()
    assert not run.model_calls.filter(status__in=["DISPATCHED", "UNCERTAIN", "RETRY_WAIT"]).exists()
    assert not Attempt.objects.filter(outcome=None).exists()
    assert not run.budgets.filter(reserved__gt=0).exists()
    assert causes(run_id).count("STOPPED") == 1


def tried(run_id: UUID) -> int:
    """How many attempts of calls and turns a run has."""
    ((number,),) = sql(
        "SELECT count(*) FROM receipts_attempt a LEFT JOIN receipts_toolcall t ON t.id = a.tool_call_id "
        "LEFT JOIN receipts_modelcall m ON m.id = a.model_call_id WHERE %s IN (t.run_id, m.run_id)",
        run_id,
    )
    return int(number)


def abort(engine: Engine, run_id: UUID, by: str = "otto", reason: str = "it must end now") -> object:
    return run_abort(actor=engine.person(by), run_id=run_id, reason=reason)


def on_the_wire(engine: Engine, tool: str = "once") -> tuple[UUID, Gate, Aside]:
    """A run whose call is sent and not answered, the gate before its answer, and its worker."""
    gate = Gate()
    SCRIPT.do("a", gate.before(lambda _: went_well("a")))
    SCRIPT.tell(calls((tool, "a")))
    run_id = engine.start()
    if tool == "once":
        drive(run_id)
        engine.approve(run_id)
    worker = Aside(lambda: drive(run_id))
    gate.wait_reached()
    return run_id, gate, worker
