"""`manage.py watch`: wait for pool processes that die, and have their runs taken over at once."""

import asyncio
import signal
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from runtime.liveness.watcher import watch


class Command(BaseCommand):
    requires_system_checks = []
    help = (
        "Watch over the workers, on one machine or more: the runs of a worker that dies are taken over at once instead of "
        "when their lease runs out. SIGTERM ends it. It may die too: then the leases do the work."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        url: str = settings.LIVENESS_DATABASE_URL
        if not url:
            raise CommandError("SIGNALBOX_LIVENESS is off: there is nothing to watch; leases run out by themselves.")
        asyncio.run(_watch_until_told(url))


async def _watch_until_told(url: str) -> None:
    watching = asyncio.create_task(watch(url))
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, watching.cancel)
    with suppress(asyncio.CancelledError):
        await watching
