"""How full the disk of this web server is: the database's own where both share one machine."""

import shutil

from django.conf import settings

from console.pages.amounts import room

LOW, OUT = 0.10, 0.02


def disk_state() -> tuple[str, str]:
    """Its lamp (clear, caution or stop), and what is free of it in words."""
    disk = shutil.disk_usage(settings.VAR_DIR)
    free = disk.free / disk.total
    lamp = "stop" if free < OUT else "caution" if free < LOW else "clear"
    return lamp, f"{room(disk.free)} of {room(disk.total)} free on this server"
