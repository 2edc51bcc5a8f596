"""`manage.py tour`: the tenant, the person and the run that a first visitor finds."""

import os
from argparse import ArgumentParser
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from accounts.models import User
from accounts.selectors import membership_actor
from accounts.services import member_set, tenant_create
from accounts.states import Actor, Role
from console.environment import BASE_DIR
from runtime.services import Started, StartRequest, Upload, run_start

TENANT = "tour"
USERNAME = "operator"
# A visitor is alone, so one person may do what in a team several do: also write, try and activate policies (ADR 0075).
ROLES = frozenset({Role.OPERATOR, Role.APPROVER, Role.RECONCILER, Role.GOVERNANCE})
AGENT = "fund_comparison"
SAMPLE_DIR = BASE_DIR / "runtime" / "agents" / "samples"
SAMPLES = {"a": SAMPLE_DIR / "larch-2026-06-30.csv", "b": SAMPLE_DIR / "maple-2026-06-30.csv"}


class Command(BaseCommand):
    requires_system_checks = []
    help = (
        "Make the tour's tenant, its operator and a first run. SIGNALBOX_TOUR_PASSWORD becomes the operator's password."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--migrate", action="store_true", help="bring the tables up to date first")
        parser.add_argument("--no-run", action="store_true", help="do not start a run to look at")

    def handle(self, *args: Any, **options: Any) -> None:
        password = os.environ.get("SIGNALBOX_TOUR_PASSWORD", "")
        if not password:
            raise CommandError("SIGNALBOX_TOUR_PASSWORD is not set: the tour's operator needs a password.")
        if options["migrate"]:
            call_command("migrate", interactive=False)
        actor = make_operator(password)
        if not options["no_run"]:
            start_run(actor)


def make_operator(password: str) -> Actor:
    """The tenant `tour` and its operator, made or brought up to date. Called on every start.

    A password that is right already is not set again: setting one ends the person's sessions.
    """
    tenant = tenant_create(slug=TENANT, name="Tour")
    user = User.objects.filter(username=USERNAME).first()
    known = user is not None and user.check_password(password)
    membership = member_set(tenant=tenant, username=USERNAME, password=None if known else password, roles=ROLES)
    return membership_actor(membership=membership, username=USERNAME, door="command")


def start_run(actor: Actor) -> None:
    """One run on two sample disclosures. Its key makes every later start find it instead of making another."""
    inputs = {name: Upload(path.name, path.read_bytes()) for name, path in SAMPLES.items()}
    started = run_start(actor=actor, wanted=StartRequest(agent=AGENT, inputs=inputs, key="tour"))
    if not isinstance(started, Started):
        raise CommandError(f"The tour's run could not be started. {started.sentence}")
