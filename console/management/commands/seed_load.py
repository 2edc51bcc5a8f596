"""`manage.py seed_load`: an empty development database filled to the size that the pages have to hold."""

import os
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from console.management.commands.tour import make_operator
from console.seed.example import example_start
from console.seed.load import Load, load_seed
from runs.models import Run


class Command(BaseCommand):
    requires_system_checks = []
    help = "Fill an empty development database: runs, receipts, open waits and one long run. Refused in production."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--runs", type=int, default=200_000, help="runs in all (%(default)s)")
        parser.add_argument("--receipts", type=int, default=2_000_000, help="turns, calls and attempts (%(default)s)")
        parser.add_argument("--waits", type=int, default=10_000, help="open waits (%(default)s)")
        parser.add_argument("--events", type=int, default=10_000, help="receipts of the long run (%(default)s)")

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.PRODUCTION:
            raise CommandError("Nothing was made. Seeding is for development; this is production.")
        load = Load(*(options[name] for name in ("runs", "receipts", "waits", "events")))
        if load.refusal:
            raise CommandError(f"Nothing was made. {load.refusal}")
        if Run.objects.exists():
            raise CommandError(
                "Nothing was made. This database holds runs, and nothing that is made here can be deleted."
            )
        password = os.environ.get("SIGNALBOX_TOUR_PASSWORD", "")
        if not password:
            raise CommandError("Nothing was made. SIGNALBOX_TOUR_PASSWORD is not set: the operator needs a password.")
        actor = make_operator(password)
        example = example_start(actor)
        if isinstance(example, str):
            raise CommandError(f"Nothing was made. {example}")
        runs, receipts, waits = load_seed(load, example, actor, self.stdout.write)
        self.stdout.write(f"There are {runs:,} runs, {receipts:,} receipts and {waits:,} open waits.")
