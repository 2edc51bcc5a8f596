"""Writes of policies: a text is saved as the next version, and a version is put in force."""

from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Max

from accounts.audit import audit_append, audit_refused
from accounts.errors import Invalid, NotAllowed, Refused
from accounts.models import Tenant
from accounts.states import Actor, Permission
from approvals.errors import PolicyFaulty, PolicyInForce, PolicyMoved
from approvals.models import PolicyActivation, PolicyHead, PolicyVersion
from approvals.policies import TEXT_LIMIT, Fault, read, version_name
from approvals.selectors import access_policy, policy_head_open
from checkpoints.envelope import unfit_text
from runs.canonical import digest

SUMMARY_LIMIT = 200
REASON_LIMIT = 4000


@dataclass(frozen=True)
class PolicySaved:
    """A text is stored as a version. `new` is False where the newest version is that very text."""

    number: int
    new: bool


@dataclass(frozen=True)
class PolicyActivated:
    """A version is in force, in place of another. The waits that were opened under that one are asked anew one by one."""

    number: int
    before: int


def policy_save(*, actor: Actor, text: str, summary: str) -> PolicySaved | Refused:
    """Store a policy as the tenant's next version, as a draft. It changes nothing until it is activated.

    Needs the permission to govern. A text with a fault is refused as PolicyFaulty, whose facts hold every fault with its
    place. Saving the newest text again gives the version that is there.
    """
    with transaction.atomic():
        outcome = _govern_refusal(actor) or _text_refusal("summary", summary.strip(), SUMMARY_LIMIT)
        outcome = outcome or faults_refusal(text)
        saved = outcome or _save(actor, text, summary.strip())
    if isinstance(saved, Refused):
        _refused(actor, "policy.save", saved)
    return saved


def _save(actor: Actor, text: str, summary: str) -> PolicySaved:
    Tenant.objects.select_for_update(no_key=True).get(id=actor.tenant_id)
    newest = PolicyVersion.objects.filter(tenant_id=actor.tenant_id).order_by("-number").first()
    named = digest(text.encode())
    if newest is not None and newest.digest == named:
        return PolicySaved(newest.number, new=False)
    number = newest.number + 1 if newest else 1
    PolicyVersion.objects.create(
        tenant_id=actor.tenant_id, number=number, text=text, digest=named, summary=summary, saved_by=actor.label
    )
    _audit(actor, "policy.save", {"number": number, "digest": named})
    return PolicySaved(number, new=True)


def policy_activate(*, actor: Actor, number: int, seen: int, reason: str) -> PolicyActivated | Refused:
    """Put a version in force; 0 is the built-in policy, an older one is put back the same way.

    `seen` is the version that was in force when the person looked: where another one came meanwhile, nothing is changed.
    Needs the permission to govern, and a text that can be read here. Waits are not touched here (ruling 35): the sweep takes them back run by run, and no
    approval under the version before can be given or used any more from this commit on. Raises NotFound.
    """
    text = access_policy(actor=actor, number=number).text if number else None
    with transaction.atomic():
        outcome = _govern_refusal(actor) or _text_refusal("reason", reason.strip(), REASON_LIMIT)
        outcome = outcome or (faults_refusal(text) if text is not None else None)
        activated = outcome or _activate(actor, number, seen, reason.strip())
    if isinstance(activated, Refused):
        _refused(actor, "policy.activate", activated)
    return activated


def _activate(actor: Actor, number: int, seen: int, reason: str) -> PolicyActivated | Refused:
    policy_head_open(actor.tenant_id)
    before = PolicyHead.objects.select_for_update(no_key=True).get(tenant_id=actor.tenant_id).number
    if before == number:
        return PolicyInForce({"version": version_name(number)})
    if before != seen:
        return PolicyMoved({"now": version_name(before), "seen": version_name(seen)})
    PolicyHead.objects.filter(tenant_id=actor.tenant_id).update(number=number)
    last = PolicyActivation.objects.filter(tenant_id=actor.tenant_id).aggregate(last=Max("seq"))["last"]
    PolicyActivation.objects.create(
        tenant_id=actor.tenant_id,
        seq=(last or 0) + 1,
        number=number,
        before=before,
        activated_by=actor.label,
        reason=reason,
    )
    _audit(actor, "policy.activate", {"number": number, "before": before, "reason_digest": digest(reason.encode())})
    return PolicyActivated(number, before)


def faults_refusal(text: str) -> PolicyFaulty | Invalid | None:
    """Why a text can't be a policy: what is wrong with it at which place; None when it can."""
    why = unfit_text(text, TEXT_LIMIT)
    if why:
        return Invalid({"field": "text", "reason": why})
    faults = read(text).faults
    if not faults:
        return None
    first = faults[0]
    return PolicyFaulty(
        {
            "field": "text",
            "count": len(faults),
            "faults": "fault" if len(faults) == 1 else "faults",
            "place": first.place or "the text",
            "said": first.said,
            "all": [fault_facts(fault) for fault in faults],
        }
    )


def fault_facts(fault: Fault) -> dict[str, Any]:
    """A fault as the doors give it."""
    return {"rule": fault.rule, "field": fault.field, "line": fault.line, "place": fault.place, "said": fault.said}


def _govern_refusal(actor: Actor) -> Refused | None:
    if actor.may(Permission.GOVERN):
        return None
    return NotAllowed({"permission": str(Permission.GOVERN), "actor": actor.name})


def _text_refusal(field: str, text: str, limit: int) -> Refused | None:
    why = unfit_text(text, limit)
    return Invalid({"field": field, "reason": why}) if why else None


def _audit(actor: Actor, action: str, detail: dict[str, Any]) -> None:
    audit_append(actor=actor, action=action, object_type="policy", object_id=actor.tenant_id, detail=detail)


def _refused(actor: Actor, action: str, refused: Refused) -> None:
    audit_refused(actor=actor, action=action, object_type="policy", object_id=actor.tenant_id, refused=refused)
