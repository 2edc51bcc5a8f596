"""Planted bugs: each drops or turns round one rule of the engine, so that the checker can show that it notices.

Nothing of this ships. `tests.matrix.inside` installs the plants where MATRIX_PLANTS is set; each acts only for the run
that an order `plant-<name>@@<about>` in the folder of the fault points names. The rules stand in the code and in the
database, so the database of the plants has its triggers and a few constraints taken away (see UNGUARDED).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

from accounts import statements as constant
from accounts.models import AuditEvent
from approvals.policies import Ruling
from approvals.states import PolicyOutcome
from receipts.services import call_fail
from runs.models import Run
from runtime.ending import held_run
from runtime.hosts import try_tool
from runtime.loop.dispatch import sending_of
from tests.matrix.points import Place

Replaced = tuple[str, str]
Patch = tuple[str, Callable[[Any], Any]]

STEP_FENCE = (
    "WHERE l.run_id = %(run)s AND l.owner = %(owner)s AND l.fence = %(fence)s AND l.expires_at > clock_timestamp()",
    "WHERE l.run_id = %(run)s AND %(owner)s::text IS NOT NULL",
)
STEP_OWN_FENCE = (
    "SELECT l.run_id, l.fence, l.stop_requested",
    "SELECT l.run_id, %(fence)s::bigint AS fence, l.stop_requested",
)
ROW_FENCE = (
    "run_id = %(run)s AND owner = %(owner)s AND fence = %(fence)s AND expires_at > clock_timestamp() FOR NO KEY UPDATE",
    "run_id = %(run)s AND (owner = %(owner)s OR true) AND (fence = %(fence)s OR true) FOR NO KEY UPDATE",
)
NO_FENCE = (STEP_FENCE, STEP_OWN_FENCE, ROW_FENCE)
HEAD = ("h.revision = %(ck_revision)s - 1 AND h.digest = %(ck_parent)s", "%(ck_parent)s::text IS NOT NULL")
STOP = ("NOT fence.stop_requested AND", "true AND")
PAUSE = ("AND NOT fence.pause_requested", "AND true")
STILL_SENT = (
    "AND t.run_id = done.run_id AND t.status = 'DISPATCHED'",
    "AND t.run_id = done.run_id",
)

STILL_OPEN = (
    "t.run_id = fence.run_id AND t.status = 'DISPATCHED' AND t.attempts = %(call_attempt)s",
    "t.run_id = fence.run_id AND %(call_attempt)s::int IS NOT NULL",
)

SAME_FENCE = ("SET fence = l.fence + 1, owner = %(owner)s", "SET fence = greatest(l.fence, 1), owner = %(owner)s")
NO_EFFECT = (
    "FROM answered, done WHERE %(effect_known)s RETURNING id",
    "FROM answered, done WHERE %(effect_known)s AND false RETURNING id",
)

NO_WAKEUP = ("|| ':DECISION' FROM closed", "|| ':DECISION' FROM closed WHERE false")

# What the database would still refuse.
UNGUARDED = """
DO $$ DECLARE plain text; BEGIN
    FOR plain IN SELECT relname FROM pg_class WHERE relkind = 'r'
        AND relname ~ '^(runs|receipts|checkpoints|approvals|accounts)_'
    LOOP EXECUTE format('ALTER TABLE %I DISABLE TRIGGER ALL', plain); END LOOP;
END $$;
ALTER TABLE checkpoints_checkpoint DROP CONSTRAINT checkpoint_revision_once CASCADE;
ALTER TABLE approvals_decision DROP CONSTRAINT approvals_decision_pkey CASCADE;
DROP INDEX one_vote_per_person, one_vote_per_voice;
ALTER TABLE runs_allowance DROP CONSTRAINT budget_not_negative;
"""


@dataclass(frozen=True)
class Plant:
    """One bug. `caught_by` is the invariant that has to notice; `sql` replaces text of statements, `patches` functions."""

    name: str
    says: str
    caught_by: str
    sql: Sequence[Replaced] = ()
    patches: Sequence[Patch] = ()
    place: Place = Place.WORKER


def _instead(answer: Callable[..., Any]) -> Callable[[Any], Any]:
    """A patch that ignores the original."""
    return lambda _: answer


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _own_voice(actor: Any, _: Any) -> str:
    return str(actor.label)


def _gives_up(original: Any) -> Any:
    def given_up(session: Any, call: Any) -> Any:
        if call.status != "UNCERTAIN":
            return original(session, call)
        with held_run(session.holding):
            call_fail(call, why="it did not answer", attempt_no=call.attempts, fence=session.holding.fence)
        return True

    return given_up


class _SendsFirst:
    """The tool runs before its dispatch is committed; afterwards its answer is taken from here."""

    def __init__(self) -> None:
        self.tried: dict[Any, Any] = {}

    def prepare(self, original: Any) -> Any:
        def prepare_effects(session: Any, effects: Any) -> None:
            original(session, effects)
            for call, tool, args in effects:
                if call.status == "AWAITING_APPROVAL":
                    sending = sending_of(call, tool, args, attempt=call.attempts + 1)
                    self.tried[call.id] = try_tool(tool, session.context(sending), args)

        return prepare_effects

    def take(self, original: Any) -> Any:
        def tried_before(tool: Any, context: Any, args: Any) -> Any:
            return self.tried.pop(context.call_id, None) or original(tool, context, args)

        return tried_before


def _another_key(original: Any) -> Any:
    def context(session: Any, sending: Any) -> Any:
        found = original(session, sending)
        return replace(found, idempotency_key=f"{found.idempotency_key}-{found.attempt_no}")

    return context


def _allows_everything(*_: Any, **__: Any) -> Any:

    return Ruling(PolicyOutcome.ALLOW, "nobody is asked")


def _rewrites(original: Any) -> Any:
    def audit_append(**event: Any) -> None:
        original(**event)
        AuditEvent.objects.filter(tenant_id=event["actor"].tenant_id, seq=1).update(hash="0" * 64)

    return audit_append


def _twice(original: Any) -> Any:
    def try_twice(*args: Any) -> Any:
        original(*args)
        return original(*args)

    return try_twice


def _mixes_up(original: Any) -> Any:
    def tried(*args: Any) -> Any:
        found = original(*args)
        return replace(found, outcome=replace(found.outcome, external_ref="another")) if found.outcome else found

    return tried


def _in_another_name(original: Any) -> Any:
    return lambda *, actor, **event: original(actor=replace(actor, name="somebody"), **event)


def _any_tenant(*, actor: Any, id: Any) -> Any:
    return Run.objects.get(id=id)


def _remembers(original: Any) -> Any:
    shown: dict[Any, Any] = {}

    def shown_run(actor: Any, id: Any) -> Any:
        return shown.setdefault(id, original(actor, id))

    return shown_run


_first = _SendsFirst()
PLANTS = (
    Plant("old-fence", "a worker that lost its lease still writes", "I5", (*NO_FENCE, STILL_OPEN, STILL_SENT)),
    Plant("fork", "a revision is saved without a look at the head", "I6", (*NO_FENCE, STILL_OPEN, HEAD)),
    Plant("late-result", "a late answer settles a call that is unknown by then", "I8", (*NO_FENCE, STILL_OPEN, STILL_SENT)),
    Plant("after-stop", "a call is sent although a stop was accepted", "I7", (STOP,)),
    Plant(
        "repeats-unknown", "an unknown call is sent again", "I3", patches=[("runtime.loop.unknown._word_for_another_try", _instead(lambda *_: "policy:idempotent"))]
    ),
    Plant(
        "unknown-is-failed", "an unknown call is taken for one that did not happen", "I4",
        patches=[("runtime.loop.unknown._given_up", _gives_up)],
    ),
    Plant(
        "sends-first", "a call is sent before its attempt is committed", "I2",
        patches=[("runtime.loop.dispatch.prepare_effects", _first.prepare), ("runtime.loop.act.try_tool", _first.take)],
    ),
    Plant("another-key", "each attempt has a key of its own", "I3", patches=[("runtime.session.Session.context", _another_key)]),
    Plant(
        "asks-nobody", "what needs an approval is sent without one", "I2",
        patches=[
            ("runtime.loop.route.rule_on", _instead(_allows_everything)),
            ("runtime.loop.dispatch.ruling_record", _instead(_nothing)),
        ],
    ),
    Plant(
        "unseen", "a decision counts that saw something else", "I2",
        patches=[("approvals.services.checks._seen_is_bound", _instead(_nothing))], place=Place.WEB,
    ),
    Plant(
        "decides-twice", "a second decision counts", "I1",
        patches=[
            (f"approvals.services.checks.{name}", _instead(_nothing)) for name in ("still_decidable", "_already_voted")
        ],
        place=Place.WEB,
    ),
    Plant(
        "wakes-nobody", "a decision is stored and nothing wakes the run", "I10",
        (NO_WAKEUP,),
        patches=[(f"approvals.services.wait.{name}", _instead(_nothing)) for name in ("run_move", "hint_run")],
        place=Place.WEB,
    ),
    Plant(
        "rewrites-audit", "an act changes an older audit event", "I9",
        patches=[("approvals.services.decide.audit_append", _rewrites)], place=Place.WEB,
    ),
    Plant(
        "leaves-out-audit", "an act is not audited", "I9",
        patches=[("approvals.services.decide.audit_append", _instead(_nothing))], place=Place.WEB,
    ),
    Plant(
        "any-tenant", "a run is shown to whoever asks", "I12",
        patches=[("console.api.runs.access_run", _instead(_any_tenant))], place=Place.WEB,
    ),
    Plant("after-pause", "a call is sent although a pause was accepted", "I7", (PAUSE,)),
    Plant("same-fence", "a lease is taken under the fence of the one before", "I5", (SAME_FENCE,)),
    Plant("no-effect-row", "an effect is not recorded", "I4", (NO_EFFECT,)),
    Plant("sends-twice", "an attempt is sent twice", "I3", patches=[("runtime.loop.act.try_tool", _twice)]),
    Plant("mixes-up", "an answer is stored for another one", "I4", patches=[("runtime.loop.act.try_tool", _mixes_up)]),
    Plant(
        "another-name", "an act is audited in another name", "I9",
        patches=[("approvals.services.decide.audit_append", _in_another_name)], place=Place.WEB,
    ),
    Plant(
        "anybody-decides", "who is no approver decides", "I2",
        patches=[("approvals.services.checks.voice_for", _instead(_own_voice))], place=Place.WEB,
    ),
    Plant(
        "stale-receipt", "a receipt is shown as it once was", "I11",
        patches=[("console.api.calls.call_shown", _remembers)], place=Place.WEB,
    ),
    Plant(
        "stale-view", "a run is shown as it once was", "I11",
        patches=[("console.api.runs.shown_run", _remembers)], place=Place.WEB,
    ),
)  # fmt: skip


@dataclass
class Planted:
    """The plants of this process: which rule is broken for whom is asked each time it is used."""

    active: Callable[[str], bool]
    installed: set[str] = field(default_factory=set)

    def install(self, place: Place) -> None:
        """Patch the functions of the plants of one place. Raises AttributeError where a rule has moved."""
        for plant in PLANTS:
            if plant.place == place and plant.name not in self.installed:
                self.installed.add(plant.name)
                for target, patch in plant.patches:
                    self._patch(plant.name, target, patch)

    def watch_statements(self) -> None:
        """Constant statements have their text replaced while their parameters still have names."""
        numbered = constant._numbered

        def planted(sql: str) -> tuple[bytes, tuple[str, ...]]:
            return numbered(self.statement(sql))

        constant._numbered = planted  # type: ignore[assignment]

    def statement(self, sql: str) -> str:
        """The text of a statement with the rules of the active plants taken out."""
        for plant in PLANTS:
            if any(old in sql for old, _ in plant.sql) and self.active(plant.name):
                for old, new in plant.sql:
                    sql = sql.replace(old, new)
        return sql

    def _patch(self, name: str, target: str, patch: Callable[[Any], Any]) -> None:
        owner, attribute = rule_of(target)
        original = getattr(owner, attribute)
        planted = patch(original)

        def either(*args: Any, **kwargs: Any) -> Any:
            return (planted if self.active(name) else original)(*args, **kwargs)

        setattr(owner, attribute, either)


def rule_of(target: str) -> tuple[Any, str]:
    """The module or class that holds what a patch replaces, and its name there."""
    path, _, attribute = target.rpartition(".")
    try:
        return import_module(path), attribute
    except ModuleNotFoundError:
        module, _, owner = path.rpartition(".")
        return getattr(import_module(module), owner), attribute
