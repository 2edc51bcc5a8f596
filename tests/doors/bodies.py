"""Acts of the routes, with bodies that are refused even where one may act, so that a walk changes nothing."""

from dataclasses import dataclass
from typing import Any

from accounts.states import Permission


@dataclass(frozen=True)
class Act:
    """What POST does: who may, and a body that is refused even then, so that a walk changes nothing."""

    permission: Permission
    body: dict[str, Any]


STALE = {"revision": 1, "digest": "0" * 64, "args_digest": "0" * 64, "reason": "walked"}
START = Act(Permission.START, {"agent": "nobody"})
STOP = Act(Permission.STOP, {"reason": " "})
PAUSE = Act(Permission.PAUSE, {"reason": " "})
RESUME = Act(Permission.RESUME, {"reason": "walked"})
BIND = Act(Permission.REVISE, {"reason": " "})
SETTLE = Act(Permission.SETTLE, {"reason": " "})
RETAIN = Act(Permission.RETAIN, {"reason": " "})
REVISE = Act(Permission.REVISE, {"reason": " ", "goal": "walked"})
TAG = Act(Permission.REVISE, {"add": ["Walked In"]})
BUDGET = Act(Permission.BUDGET, {"reason": " ", "unit": "tokens", "cap": 1})
SUCCEED = Act(Permission.START, {"reason": " "})
UPGRADE = Act(Permission.REVISE, {"reason": " "})
RELEASE = Act(Permission.RELEASE, {"reason": " "})
WITHDRAW = Act(Permission.REVISE, {"reason": " "})
DECIDE = Act(Permission.DECIDE, {"verdict": "APPROVE", **STALE})
WITHDRAW_VOTE = Act(Permission.READ, {"reason": " "})
CLAIM = Act(Permission.DECIDE, {})
ASSIGN = Act(Permission.DECIDE, {"person": "nobody", "reason": " "})
ELSEWHERE = {"kind": "WEBHOOK", "name": "walked", "address": "nowhere", "whole_tenant": True}
