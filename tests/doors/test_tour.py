"""What the one person of a tour can do: also write a policy, try it on the tour's calls and put it in force."""

from django.db import transaction

from accounts.models import Membership
from accounts.states import GRANTS, Role
from approvals.services import PolicyActivated, PolicySaved, policy_activate, policy_save
from console.management.commands.tour import ROLES, make_operator
from runtime.services import Rehearsal, policy_rehearse
from tests.doors.world import Doors

POLICY = '[[rule]]\nname = "everything is asked about"\nthen = "ask"\n'


def test_the_person_of_a_tour_writes_tries_and_activates_a_policy(doors: Doors) -> None:
    with transaction.atomic():
        actor = make_operator("a long enough pass phrase")
        assert actor.roles == set(ROLES) == set(Membership.objects.get(user__username="operator").roles)
        assert isinstance(policy_rehearse(actor=actor, text=POLICY), Rehearsal)
        saved = policy_save(actor=actor, text=POLICY, summary="ask about everything")
        assert isinstance(saved, PolicySaved)
        done = policy_activate(actor=actor, number=saved.number, seen=0, reason="to see what it does")
        assert isinstance(done, PolicyActivated)
        transaction.set_rollback(True)


def test_only_the_auditor_does_what_the_person_of_a_tour_may_not() -> None:
    left = {permission for role in Role for permission in GRANTS[role]} - {p for role in ROLES for p in GRANTS[role]}
    assert left == GRANTS[Role.AUDITOR]
