"""Reads of waits. `access_wait` is the only way to a wait that a user named."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from accounts.errors import NotFound
from accounts.models import ClockTimestamp
from accounts.selectors import authority_of, proved_body
from accounts.statements import Gathered, fetch, gather, gathered, stored, stored_rows
from accounts.states import Actor, Permission
from approvals.models import (
    Answer,
    Assignment,
    Decision,
    Delegation,
    Grant,
    PolicyActivation,
    PolicyDecision,
    PolicyVersion,
    Vote,
    Wait,
)
from approvals.policies import BUILT_IN, BUILT_IN_VERSION, Policy, read
from approvals.statements import (
    ASKED_PEOPLE,
    ASKING_ABOUT,
    GRANTS_FOR,
    LOOKED,
    NOW_AND_POLICY,
    OVERDUE,
    PAST_DEADLINE,
    POLICY_NUMBER,
    POLICY_OPEN,
    TO_ESCALATE,
    TO_REMIND,
    TOOLS_ASKED_ABOUT,
    TWO_TO_SAY,
    UNDER_ANOTHER_POLICY,
)
from approvals.states import LIVE_WAIT, AnswerKind, WaitStatus, Whose
from receipts.models import ToolCall
from receipts.states import EffectClass
from runs.canonical import digest, parse
from runs.selectors import artifact_bytes


def waits_visible(actor: Actor) -> QuerySet[Wait]:
    """The waits of the actor's tenant; none without the permission to read."""
    if not actor.may(Permission.READ):
        return Wait.objects.none()
    return Wait.objects.filter(tenant_id=actor.tenant_id)


def access_wait(*, actor: Actor, id: UUID) -> Wait:
    """The wait with this id in the actor's tenant. Raises NotFound."""
    with_it = ("tenant", "run__thread", "run__agent_version__agent", "tool_call")
    wait = waits_visible(actor).select_related(*with_it).filter(id=id).first()
    if wait is None:
        raise NotFound
    return wait


def decision_of(wait: Wait) -> Decision | None:
    """The decision of a wait, or None."""
    return next(iter(stored_rows(Decision, "wait_id = %(wait)s", {"wait": wait.id})), None)


def answer_of(wait_id: UUID) -> Answer | None:
    """What was answered to a question, or None."""
    return Answer.objects.filter(wait_id=wait_id).first()


@dataclass(frozen=True)
class AnsweredFile:
    """A file that a person gave as an answer: its name as they gave it, and its bytes."""

    filename: str
    data: bytes


def access_answer_file(*, actor: Actor, wait_id: UUID) -> AnsweredFile:
    """The file that answered a question of the actor's tenant. Raises NotFound where there is none, BodyChanged where its bytes are
    not the stored ones any more.
    """
    answer = Answer.objects.filter(wait__in=waits_visible(actor), wait_id=wait_id, kind=AnswerKind.FILE).first()
    if answer is None or answer.file_sha256 is None:
        raise NotFound
    data = artifact_bytes(tenant_id=actor.tenant_id, sha256=answer.file_sha256)
    return AnsweredFile(answer_value(answer)["filename"], data)


def is_answered_by_file(call_ids: Collection[UUID], sha256: str) -> bool:
    """Whether one of these calls is a question that was answered with the file of this digest."""
    files = Answer.objects.filter(kind=AnswerKind.FILE, file_sha256=sha256, wait__status=WaitStatus.CONSUMED)
    return files.filter(wait__tool_call__in=call_ids).exists()


def answer_value(answer: Answer) -> Any:
    """An answer as the model is told it. Raises BodyChanged where its bytes are not the stored ones any more."""
    return parse(proved_body(key_id=answer.data_key_id, body=answer.body, sha256=answer.digest))


def waits_open(ids: Collection[UUID]) -> set[UUID]:
    """Those of these waits that are open."""
    return set(Wait.objects.filter(id__in=ids, status=WaitStatus.OPEN).values_list("id", flat=True)) if ids else set()


def votes_of(wait_id: UUID) -> list[Vote]:
    """The votes on a wait that stand, the oldest first."""
    return stored_rows(Vote, "wait_id = %(wait)s AND withdrawn_at IS NULL ORDER BY at", {"wait": wait_id})


def all_votes_of(wait_id: UUID) -> list[Vote]:
    """Every vote that was ever given on a wait, the oldest first."""
    return stored_rows(Vote, "wait_id = %(wait)s ORDER BY at", {"wait": wait_id})


def assignment_of(wait_id: UUID) -> Assignment | None:
    """Who looks at a wait now, or None."""
    return next(iter(stored_rows(Assignment, "wait_id = %(wait)s AND ended_at IS NULL", {"wait": wait_id})), None)


def people_looking(ids: Collection[UUID]) -> dict[UUID, str]:
    """By wait, who looks at it now, of those of these waits that somebody looks at."""
    rows = Assignment.objects.filter(wait__in=ids, ended_at=None) if ids else Assignment.objects.none()
    return dict(rows.values_list("wait_id", "person"))


def waits_whose(waits: QuerySet[Wait], *, actor: Actor, whose: Whose) -> QuerySet[Wait]:
    """Of these waits those that this person looks at, or somebody for whom they decide now; or those at which nobody looks."""
    looking = Assignment.objects.filter(wait=OuterRef("pk"), ended_at=None)
    if whose == Whose.MINE:
        standing = Delegation.objects.filter(tenant_id=actor.tenant_id, taker=actor.label, ended_at=None)
        now = standing.filter(starts_at__lte=ClockTimestamp(), ends_at__gt=ClockTimestamp())
        return waits.filter(Exists(looking.filter(Q(person=actor.label) | Q(person__in=now.values("giver")))))
    return waits.filter(~Exists(looking)) if whose == Whose.UNCLAIMED else waits


_GIVERS = """
SELECT giver FROM approvals_delegation WHERE tenant_id = %(tenant)s AND taker = %(taker)s AND ended_at IS NULL
AND starts_at <= clock_timestamp() AND ends_at > clock_timestamp() ORDER BY given_at, id FOR SHARE"""


def givers_to(*, tenant_id: UUID, taker: str) -> list[tuple[str, frozenset[str], frozenset[str]]]:
    """(label, roles, groups) of those who have this person decide with their authority now, the oldest delegation first.

    In a transaction it keeps delegations and memberships as they are until the commit.
    """
    givers = [label for (label,) in fetch(_GIVERS, {"tenant": tenant_id, "taker": taker})]
    held = authority_of(tenant_id=tenant_id, labels=givers)
    return [(label, *held[label]) for label in dict.fromkeys(givers) if label in held]


def delegations_visible(actor: Actor) -> QuerySet[Delegation]:
    """The delegations of the actor's tenant; none without the permission to read."""
    if not actor.may(Permission.READ):
        return Delegation.objects.none()
    return Delegation.objects.filter(tenant_id=actor.tenant_id)


def delegations_to_come(ids: Collection[UUID]) -> set[UUID]:
    """Those of these delegations that stand, or will."""
    rows = Delegation.objects.filter(id__in=ids, ended_at=None, ends_at__gt=ClockTimestamp())
    return set(rows.values_list("id", flat=True)) if ids else set()


def access_delegation(*, actor: Actor, id: UUID) -> Delegation:
    """The delegation with this id in the actor's tenant. Raises NotFound."""
    found = delegations_visible(actor).filter(id=id).first()
    if found is None:
        raise NotFound
    return found


def looked_at(*, actor: Actor, wait_id: UUID) -> bool:
    """Whether a wait was ever shown whole to a person."""
    return bool(fetch(LOOKED, {"wait": wait_id, "actor": actor.label}))


def newest_wait(*, call_id: UUID) -> Wait | None:
    """The wait that was opened last for a call."""
    waits = Wait.objects.filter(tool_call_id=call_id).select_related("run", "tool_call")
    return waits.defer("tool_call__args").order_by("-opened_at").first()


def newest_waits(*, call_ids: Sequence[UUID]) -> dict[UUID, Wait]:
    """By call, the wait that was opened last for it."""
    return {wait.tool_call_id: wait for wait, _ in newest_asked(gather(_ASKED, {"calls": list(call_ids)})).values()}


_ASKED = gathered(ASKED_PEOPLE, of=("asked_people", "decided"))


def newest_asked(found: Gathered) -> dict[UUID, tuple[Wait, Decision | None]]:
    """By call, the wait that was opened last for it and what was decided, by the rows of ASKED_PEOPLE."""
    decisions = {row.wait_id: row for row in stored(Decision, found["decided"])}
    waits = sorted(stored(Wait, found["asked_people"]), key=lambda wait: wait.opened_at)
    return {wait.tool_call_id: (wait, decisions.get(wait.id)) for wait in waits}


def bound_revisions(run_id: UUID) -> frozenset[int]:
    """The revisions that live waits of a run are bound to."""
    rows = Wait.objects.filter(run_id=run_id, status__in=LIVE_WAIT)
    return frozenset(rows.values_list("checkpoint_revision", flat=True))


def wait_is_open(*, run_id: UUID) -> bool:
    """True while somebody is still asked about a call of the run."""
    return bool(
        fetch("SELECT 1 FROM approvals_wait WHERE run_id = %(run)s AND status = 'OPEN' LIMIT 1", {"run": run_id})
    )


def approval_used(*, call_id: UUID) -> Wait | None:
    """The wait on whose approval a call was sent, or None where nobody was asked."""
    return Wait.objects.filter(tool_call_id=call_id, status=WaitStatus.CONSUMED, valid_until__isnull=False).first()


def approval_expired(wait: Wait) -> bool:
    """True if the time in which an approval may be used has passed."""
    expired = "SELECT 1 FROM approvals_wait WHERE id = %(wait)s AND valid_until <= clock_timestamp()"
    return bool(fetch(expired, {"wait": wait.id}))


def waits_past_deadline(limit: int = 200) -> list[tuple[UUID, UUID]]:
    """(wait, run) of open waits whose deadline has passed, by the database's clock."""
    return [(wait_id, run_id) for wait_id, run_id in fetch(PAST_DEADLINE, {"limit": limit})]


def waits_overdue(seconds: float) -> list[tuple[UUID, int, datetime]]:
    """(tenant, how many, the oldest deadline) of open waits whose deadline passed longer than so many seconds ago."""
    return [(tenant, count, oldest) for tenant, count, oldest in fetch(OVERDUE, {"seconds": seconds})]


def policies_visible(actor: Actor) -> QuerySet[PolicyVersion]:
    """The versions of the policy of the actor's tenant; none without the permission to read."""
    if not actor.may(Permission.READ):
        return PolicyVersion.objects.none()
    return PolicyVersion.objects.filter(tenant_id=actor.tenant_id)


def access_policy(*, actor: Actor, number: int) -> PolicyVersion:
    """One version of the actor's tenant. Raises NotFound; the built-in policy (0) has no text."""
    version = policies_visible(actor).filter(number=number).first()
    if version is None:
        raise NotFound
    return version


def policy_number(tenant_id: UUID) -> int:
    """The number of the version that is in force; 0 is the built-in policy."""
    found = fetch(POLICY_NUMBER, {"tenant": tenant_id})
    return int(found[0][0]) if found else 0


def now_and_policy(tenant_id: UUID) -> tuple[datetime, int]:
    """The database's clock, and the number of the version in force, in one query."""
    ((now, number),) = fetch(NOW_AND_POLICY, {"tenant": tenant_id})
    return now, number


def last_activation(tenant_id: UUID) -> PolicyActivation | None:
    """Who put which version in force last; None where nobody ever has."""
    return PolicyActivation.objects.filter(tenant_id=tenant_id).order_by("-seq").first()


def policy_number_kept(tenant_id: UUID) -> int:
    """The same, and it stays in force until the caller's transaction ends (ruling 35)."""
    kept = f"{POLICY_NUMBER} FOR SHARE"
    found = fetch(kept, {"tenant": tenant_id})
    if not found:
        policy_head_open(tenant_id)
        found = fetch(kept, {"tenant": tenant_id})
    return int(found[0][0])


def policy_head_open(tenant_id: UUID) -> None:
    """See to it that the row of the version in force is there to be locked. It says what holds without it."""
    with connection.cursor() as cursor:
        cursor.execute(POLICY_OPEN, {"tenant": tenant_id})


@lru_cache(maxsize=256)
def policy_of(tenant_id: UUID, number: int) -> Policy:
    """A version, ready to be asked. A version never changes, so a process reads it once. One that can't be read here, by an
    installation that knows other time zones or fields, or whose text was changed in the store, denies every call.
    """
    if number == 0:
        return BUILT_IN
    version = PolicyVersion.objects.get(tenant_id=tenant_id, number=number)
    if digest(version.text.encode()) != version.digest:
        return Policy(number, unreadable="its text was changed after it was saved")
    found = read(version.text)
    why = "; ".join(f"{fault.place or 'the text'}: {fault.said}" for fault in found.faults[:3])
    return Policy(number, found.document, why)


def runs_under_another_policy(limit: int = 200) -> list[UUID]:
    """Runs with live waits that were opened under another version than the one in force by now."""
    return [run_id for (run_id,) in fetch(UNDER_ANOTHER_POLICY, {"limit": limit, "built_in": BUILT_IN_VERSION})]


def tools_asked_about() -> list[tuple[str, str, str]]:
    """(agent, tool, definition hash) of the tools that open waits are about, as they were when people were asked."""
    return [(agent, tool, asked_hash) for agent, tool, asked_hash in fetch(TOOLS_ASKED_ABOUT, {})]


def runs_asking_about(agent: str, tool: str, asked_hash: str, limit: int = 200) -> list[UUID]:
    """Runs with open waits about this definition of a tool."""
    wanted = {"agent": agent, "tool": tool, "hash": asked_hash, "limit": limit}
    return [run_id for (run_id,) in fetch(ASKING_ABOUT, wanted)]


def rulings_of(call_ids: Sequence[UUID]) -> dict[UUID, PolicyDecision]:
    """By call, what policy said about it last."""
    rows = PolicyDecision.objects.filter(tool_call_id__in=call_ids).order_by("at")
    return {row.tool_call_id: row for row in rows}


def two_have_to_say(call: ToolCall) -> bool:
    """Whether two people have to say the same of the outcome of a call with an effect: because its tenant wants it of all of
    them, or because the rule by which it was sent did. What policy says by now changes nothing about a call that was sent.
    """
    if call.effect_class == EffectClass.READ_ONLY:
        return False
    return bool(fetch(TWO_TO_SAY, {"call": call.id, "tenant": call.tenant_id})[0][0])


def waits_to_remind(limit: int = 200) -> list[tuple[UUID, UUID]]:
    """(wait, run) of open waits of which people are to be reminded now."""
    return [(wait_id, run_id) for wait_id, run_id in fetch(TO_REMIND, {"limit": limit})]


def waits_to_escalate(limit: int = 200) -> list[tuple[UUID, UUID]]:
    """(wait, run) of open waits about which others are to be asked as well now."""
    return [(wait_id, run_id) for wait_id, run_id in fetch(TO_ESCALATE, {"limit": limit})]


def grants_visible(actor: Actor) -> QuerySet[Grant]:
    """The standing grants of the actor's tenant; none without the permission to read."""
    if not actor.may(Permission.READ):
        return Grant.objects.none()
    return Grant.objects.filter(tenant_id=actor.tenant_id)


def access_grant(*, actor: Actor, id: UUID) -> Grant:
    """The grant with this id in the actor's tenant. Raises NotFound."""
    grant = grants_visible(actor).filter(id=id).first()
    if grant is None:
        raise NotFound
    return grant


def grants_for(call: ToolCall, *, agent: str) -> list[Grant]:
    """The grants that stand now for the tool of a call, as that tool is defined."""
    wanted = {"tenant": call.tenant_id, "agent": agent, "tool": call.tool, "tool_hash": call.tool_hash}
    return stored_rows(Grant, GRANTS_FOR, wanted)


def grants_standing(tenant_id: UUID) -> list[Grant]:
    """All grants of a tenant that stand now, in the order in which they are used."""
    unused = Grant.objects.filter(tenant_id=tenant_id, revoked_at=None, uses__lt=F("max_uses"))
    return list(unused.filter(expires_at__gt=ClockTimestamp()).order_by("expires_at", "id"))


def grant_used(*, call_id: UUID) -> Grant | None:
    """The grant by which a call was sent, or None."""
    return Grant.objects.filter(used_by__tool_call_id=call_id).first()


def grant_stands(grant: Grant) -> bool:
    """Whether a grant is neither revoked nor past its time, by the database's clock. Its uses may be over."""
    found = (
        "SELECT 1 FROM approvals_grant WHERE id = %(grant)s AND revoked_at IS NULL AND expires_at > clock_timestamp()"
    )
    return bool(fetch(f"{found} FOR SHARE", {"grant": grant.id}))
