"""`manage.py tour`: the tenant, the person and the run that a first visitor finds."""

import os
from argparse import ArgumentParser
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from accounts.models import User
from accounts.services import member_set, tenant_create
from accounts.states import Role

USERNAME = "operator"
ROLES = frozenset({Role.OPERATOR, Role.APPROVER, Role.RECONCILER})


class Command(BaseCommand):
    requires_system_checks = []
    help = "Make the tour's tenant and its operator. SIGNALBOX_TOUR_PASSWORD becomes the operator's password."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--migrate", action="store_true", help="bring the tables up to date first")
        parser.add_argument("--no-run", action="store_true", help="do not start a run to look at")

    def handle(self, *args: Any, **options: Any) -> None:
        password = os.environ.get("SIGNALBOX_TOUR_PASSWORD", "")
        if not password:
            raise CommandError("SIGNALBOX_TOUR_PASSWORD is not set: the tour's operator needs a password.")
        if options["migrate"]:
            call_command("migrate", interactive=False)
        make_operator(password)


def make_operator(password: str) -> None:
    """The tenant `tour` and its operator, made or brought up to date. Called on every start.

    A password that is right already is not set again: setting one ends the person's sessions.
    """
    tenant = tenant_create(slug="tour", name="Tour")
    user = User.objects.filter(username=USERNAME).first()
    known = user is not None and user.check_password(password)
    member_set(tenant=tenant, username=USERNAME, password=None if known else password, roles=ROLES)
