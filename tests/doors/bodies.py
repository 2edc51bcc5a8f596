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
DELEGATE = Act(Permission.DECIDE, {"taker": "nobody", "ends_at": "2030-01-01T00:00:00Z", "reason": " "})
END_DELEGATION = Act(Permission.RETAIN, {})
_SHOWN = {"revision": 1, "digest": "0" * 64, "args_digest": "0" * 64}
ANSWER = Act(Permission.DECIDE, {"text": "walked", **_SHOWN})
DECLINE = Act(Permission.DECIDE, STALE)
AMEND = Act(Permission.DECIDE, {"arguments": "{}", **STALE})
AMEND_BODY = Act(Permission.DECIDE, {"arguments": {}, **STALE})
PROBE = Act(Permission.RECONCILE, {"attempts": 99})
ATTACH = Act(Permission.RECONCILE, {})
RECONCILE = Act(Permission.RECONCILE, {"verdict": "EXECUTED", "evidence": " "})
FLAG = Act(Permission.RECONCILE, {"says": "EXECUTED", "evidence": " ", "reason": " "})
FLAG_BODY = Act(Permission.RECONCILE, {"says": "EXECUTED", "evidence": " "})
GIVE = Act(Permission.DECIDE, {"tool": "nobody/nothing", "hours": "0", "max_uses": "0", "reason": " "})
