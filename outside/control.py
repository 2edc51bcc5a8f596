"""What a person or a test may set: how requests are treated. Wrong settings are refused with a reason."""

from dataclasses import replace
from typing import Any

from outside.store import MODES, TARGETS, WHEN, Store

KNOWN = {"mode", "for", "times", "execute", "hang_seconds", "deduplicate", "lookup"}


class ControlRefused(ValueError):
    """The setting can't be used; nothing was changed."""


def apply(store: Store, wanted: dict[str, Any]) -> None:
    """Set what `wanted` names: {"mode", "for", "times", "execute", "hang_seconds", "deduplicate", "lookup"}.

    `for` defaults to wiki, `times` to null (until changed), and `execute` (before, after, never, true or false) to
    before. Raises ControlRefused.
    """
    unknown = set(wanted) - KNOWN
    if unknown:
        raise ControlRefused(f"There is no setting {min(unknown)}.")
    options = {name: _flag(wanted, name) for name in ("deduplicate", "lookup") if name in wanted}
    target = wanted.get("for", "wiki")
    if target not in TARGETS:
        raise ControlRefused(f"for is one of {', '.join(TARGETS)}.")
    switch = store.switch(target)
    if "mode" in wanted:
        switch = replace(switch, mode=_mode(wanted), times=_times(wanted), execute_when=_when(wanted))
    if "hang_seconds" in wanted:
        switch = replace(switch, hang_seconds=_seconds(wanted))
    store.set_switch(target, switch)
    for name, is_on in options.items():
        store.set_option(name, is_on)


def _mode(wanted: dict[str, Any]) -> str:
    if wanted["mode"] not in MODES:
        raise ControlRefused(f"mode is one of {', '.join(MODES)}.")
    return str(wanted["mode"])


def _times(wanted: dict[str, Any]) -> int | None:
    times = wanted.get("times")
    if times is None:
        return None
    if not isinstance(times, int) or isinstance(times, bool) or times < 1:
        raise ControlRefused("times is a whole number from 1, or null.")
    return times


def _when(wanted: dict[str, Any]) -> str:
    execute = wanted.get("execute", True)
    if isinstance(execute, bool):
        return "before" if execute else "never"
    if execute not in WHEN:
        raise ControlRefused(f"execute is one of {', '.join(WHEN)}, true or false.")
    return str(execute)


def _seconds(wanted: dict[str, Any]) -> float:
    seconds = wanted["hang_seconds"]
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds <= 3600:
        raise ControlRefused("hang_seconds is a number from 0 to 3600.")
    return float(seconds)


def _flag(wanted: dict[str, Any], name: str) -> bool:
    if not isinstance(wanted[name], bool):
        raise ControlRefused(f"{name} is true or false.")
    return bool(wanted[name])
