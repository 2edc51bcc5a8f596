"""`manage.py up`: all of Signalbox on this machine, until Ctrl-C."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from console.local.errors import LocalError
from console.local.launch import Options, launch


class Command(BaseCommand):
    help = "Start everything on this machine: database, broker, web server, workers, clock, and the tour."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
        parser.add_argument("--port", type=int, default=8000, help="port to listen on; 0 takes any free one (8000)")
        parser.add_argument("--workers", type=int, default=2, help="number of worker processes (default: %(default)s)")
        parser.add_argument("--ready-file", type=Path, help="write {url, username, password} here when all answer")
        parser.add_argument("--no-tour", action="store_true", help="do not start a run to look at")

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.PRODUCTION:
            raise CommandError(
                "`up` is for one machine. In production start the web server, workers and beat themselves."
            )
        if options["workers"] < 1:
            raise CommandError("--workers must be 1 or more: without a worker no run moves.")
        wanted = Options(
            host=options["host"],
            port=options["port"],
            workers=options["workers"],
            tour=not options["no_tour"],
            ready_file=options["ready_file"],
        )
        try:
            launch(wanted, settings.ENV, self._say)
        except LocalError as error:
            raise CommandError(str(error)) from error
        except PermissionError as error:
            raise CommandError(
                f"{error.filename} is not ours to use. Start as its owner, or set SIGNALBOX_VAR_DIR."
            ) from error

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()
