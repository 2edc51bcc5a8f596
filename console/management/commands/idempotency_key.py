"""`manage.py idempotency_key`: the key of a call, computed as anybody can (T05, C-018). It reads no database."""

import json
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand

from runs.canonical import NotCanonical, idempotency_key, intent_key, parse


def arguments(text: str) -> dict[str, Any]:
    """Arguments as they are given: a JSON object, read strictly."""
    try:
        found = parse(text.encode("utf-8", "surrogateescape"))
    except NotCanonical as error:
        raise ArgumentTypeError(str(error)) from None
    if not isinstance(found, dict):
        raise ArgumentTypeError(f"give a JSON object, not {json.dumps(found)[:40]}")
    return found


class Command(BaseCommand):
    requires_system_checks = []
    help = "The idempotency key of a call: SHA-256 of the RFC 8785 JSON of {v, run_id, step_name, args}."

    def add_arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--run", type=UUID, help="the run that makes the call")
        which.add_argument(
            "--intent", action="store_true", help="the intent key instead, which all runs of a lineage share"
        )
        parser.add_argument("--step", required=True, help="the step's name, as in publish_report/overlap-v1")
        parser.add_argument(
            "--args", dest="given", type=arguments, required=True, help="the completed arguments, as a JSON object"
        )

    def handle(self, *args: Any, **options: Any) -> str:
        named = {"step_name": options["step"], "args": options["given"]}
        return intent_key(**named) if options["intent"] else idempotency_key(run_id=options["run"], **named)
