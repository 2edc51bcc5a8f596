"""Every route, socket and command, with who may use it: what the access walk goes through."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from accounts.states import Permission

OUR_APPS = {"accounts", "runs", "receipts", "checkpoints", "approvals", "runtime", "console"}
MISSING = UUID(int=0)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
LIST_AND_ACT = {
    "api:runs",
    "api:policies",
    "api:grants",
    "api:scopes",
    "api:endpoints",
    "api:bulks",
    "api:views",
    "api:delegations",
}  # what GET lists and POST adds to


@dataclass(frozen=True)
class Act:
    """What POST does: who may, and a body that is refused even then, so that a walk changes nothing."""

    permission: Permission
    body: dict[str, Any]


@dataclass(frozen=True)
class Route:
    """Who may pass. `door` is page, api or open; `named` is what its path names."""

    door: str
    named: str = ""
    act: Act | None = None
    reads: bool = True


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
_GRANT = {"agent": "fund_comparison", "tool": "publish_report", "hours": 0, "max_uses": 0}
GIVE_BODY = Act(Permission.DECIDE, {**_GRANT, "reason": " "})
REVOKE = Act(Permission.DECIDE, {"reason": " "})
GOVERN = Act(Permission.GOVERN, {"seen": 7, "reason": " "})
SAVE_POLICY = Act(Permission.GOVERN, {"text": "", "summary": " "})
TRY_POLICY = Act(Permission.GOVERN, {"text": ""})
ELSEWHERE = {"kind": "WEBHOOK", "name": "walked", "address": "nowhere", "whole_tenant": True}
TELL = Act(Permission.NOTIFY, ELSEWHERE)
UNTELL = Act(Permission.NOTIFY, {})
CHANGE_TOLD = Act(Permission.NOTIFY, {"how": "test"})
RENAME_TOLD = Act(Permission.NOTIFY, {"name": "walked"})
PURGE_TOLD = Act(Permission.RETAIN, {"reason": " "})
CLOSE_FLAG = Act(Permission.RECONCILE, {"closing": "NOTED", "reason": " "})

KEEP_VIEW = Act(Permission.READ, {"listed": "runs", "name": "x" * 101})
DROP_VIEW = Act(Permission.GOVERN, {"name": "another"})
BULK = Act(Permission.STOP, {"act": "STOP", "query": "q=nothing", "digest": "0", "count": 0, "reason": " "})
SCOPE = Act(Permission.STOP, {"scope": "TENANT", "act": "stop", "reason": " "})
LIFT = Act(Permission.STOP, {"reason": " "})

ROUTES = {
    "healthz": Route("open"),
    "tenant": Route("page", reads=False),
    "sign-in": Route("open"),
    "sign-out": Route("open"),
    "design": Route("page", reads=False),
    "tour": Route("page"),
    "overview": Route("page"),
    "overview-parts": Route("page"),
    "inbox": Route("page"),
    "inbox-batch": Route("page", act=Act(Permission.DECIDE, {"verdict": "REJECT", "reason": " "})),
    "inbox-count": Route("page"),
    "search": Route("page"),
    "audit": Route("page", reads=False),
    "views": Route("page", act=KEEP_VIEW),
    "view-remove": Route("page", "view", DROP_VIEW),
    "bulks": Route("page"),
    "bulk-new": Route("page", act=BULK),
    "bulk": Route("page", "bulk"),
    "audit-verified": Route("page", reads=False),
    "waits": Route("page"),
    "calls": Route("page"),
    "notices": Route("page"),
    "runs": Route("page"),
    "run-new": Route("page", act=START),
    "run": Route("page", "run"),
    "run-pause": Route("page", "run", PAUSE),
    "run-retry": Route("page", "run", RESUME),
    "run-settle": Route("page", "run", SETTLE),
    "run-bind": Route("page", "run", BIND),
    "run-goal": Route("page", "run", REVISE),
    "run-tags": Route("page", "run", TAG),
    "run-budget": Route("page", "run", BUDGET),
    "run-continue": Route("page", "run", SUCCEED),
    "run-replay": Route("page", "run"),
    "run-recovery": Route("page", "run"),
    "run-handover": Route("page", "run"),
    "run-lineage": Route("page", "run"),
    "run-migrate": Route("page", "run", UPGRADE),
    "run-repin": Route("page", "run", UPGRADE),
    "checkpoint-fork": Route("page", "checkpoint", SUCCEED),
    "stop": Route("page", "run", STOP),
    "checkpoints": Route("page", "run"),
    "checkpoint": Route("page", "checkpoint"),
    "wait": Route("page", "wait", DECIDE),
    "wait-amend": Route("page", "wait", AMEND),
    "wait-withdraw": Route("page", "wait", WITHDRAW_VOTE),
    "wait-look": Route("page", "wait", Act(Permission.DECIDE, {"act": "release"})),
    "wait-assign": Route("page", "wait", ASSIGN),
    "delegations": Route("page", act=DELEGATE),
    "measures": Route("page"),
    "delegation-end": Route("page", "delegation", END_DELEGATION),
    "call": Route("page", "call", RECONCILE),
    "commitment-withdraw": Route("page", "commitment", WITHDRAW),
    "obligation-release": Route("page", "obligation", RELEASE),
    "scopes": Route("page"),
    "scope-new": Route("page", act=SCOPE),
    "scope": Route("page", "scope", LIFT),
    "call-attachment": Route("page", "attachment"),
    "reports": Route("page"),
    "report": Route("page", "report"),
    "report-download": Route("page", "version"),
    "report-md": Route("page", "version"),
    "report-html": Route("page", "version"),
    "report-pdf": Route("page", "version"),
    "call-repeat": Route("page", "call", UPGRADE),
    "call-contradict": Route("page", "call", FLAG),
    "contradiction-close": Route("page", "contradiction", CLOSE_FLAG),
    "grants": Route("page", act=GIVE),
    "grant": Route("page", "grant", REVOKE),
    "policies": Route("page"),
    "policy-new": Route("page", act=SAVE_POLICY),
    "policy": Route("page", "policy", GOVERN),
    "workspaces": Route("page"),
    "workspace": Route("page", "workspace"),
    "memory": Route("page"),
    "notifications": Route("page", act=TELL),
    "notification": Route("page", "endpoint", CHANGE_TOLD),
    "notification-remove": Route("page", "endpoint", UNTELL),
    "api:schema": Route("api", reads=False),
    "api:runs": Route("api", act=START),
    "api:run": Route("api", "run"),
    "api:run-stop": Route("api", "run", STOP),
    "api:run-abort": Route("api", "run", STOP),
    "api:run-pause": Route("api", "run", PAUSE),
    "api:run-resume": Route("api", "run", RESUME),
    "api:run-settle": Route("api", "run", SETTLE),
    "api:run-retention": Route("api", "run"),
    "api:run-retain": Route("api", "run", RETAIN),
    "api:run-terms": Route("api", "run", BIND),
    "api:run-goal": Route("api", "run", REVISE),
    "api:run-tags": Route("api", "run", TAG),
    "api:run-budget": Route("api", "run", BUDGET),
    "api:run-continue": Route("api", "run", SUCCEED),
    "api:run-replay": Route("api", "run"),
    "api:report-current": Route("api", "report"),
    "api:run-lineage": Route("api", "run"),
    "api:run-recovery": Route("api", "run"),
    "api:run-handover": Route("api", "run"),
    "api:run-trace": Route("api", "run"),
    "api:run-transitions": Route("api", "run"),
    "api:run-turns": Route("api", "run"),
    "api:run-tasks": Route("api", "run"),
    "api:run-wakeups": Route("api", "run"),
    "api:run-refusals": Route("api", "run"),
    "api:run-saves": Route("api", "run"),
    "api:run-lapses": Route("api", "run"),
    "api:run-migrate": Route("api", "run", UPGRADE),
    "api:run-repin": Route("api", "run", UPGRADE),
    "api:checkpoint-fork": Route("api", "checkpoint", SUCCEED),
    "api:checkpoint-fork-preview": Route("api", "checkpoint"),
    "api:run-inputs": Route("api", "run"),
    "api:run-input": Route("api", "input"),
    "api:run-reports": Route("api", "run"),
    "api:reports": Route("api"),
    "api:checkpoints": Route("api", "run"),
    "api:checkpoint": Route("api", "checkpoint"),
    "api:checkpoint-export": Route("api", "checkpoint"),
    "api:checkpoint-diff": Route("api", "difference"),
    "api:waits": Route("api"),
    "api:wait": Route("api", "wait"),
    "api:waits-decide": Route("api", act=Act(Permission.DECIDE, {"verdict": "REJECT", "waits": [], "reason": " "})),
    "api:wait-decide": Route("api", "wait", DECIDE),
    "api:wait-answer": Route("api", "wait", ANSWER),
    "api:wait-decline": Route("api", "wait", DECLINE),
    "api:wait-amend": Route("api", "wait", AMEND_BODY),
    "api:wait-withdraw": Route("api", "wait", WITHDRAW_VOTE),
    "api:wait-claim": Route("api", "wait", CLAIM),
    "api:wait-release": Route("api", "wait", CLAIM),
    "api:wait-assign": Route("api", "wait", ASSIGN),
    "api:measures": Route("api"),
    "api:delegations": Route("api", act=DELEGATE),
    "api:delegation-end": Route("api", "delegation", END_DELEGATION),
    "api:calls": Route("api"),
    "api:call": Route("api", "call"),
    "api:call-probe": Route("api", "call", PROBE),
    "api:call-attach": Route("api", "call", ATTACH),
    "api:call-attachment": Route("api", "attachment"),
    "api:call-reconcile": Route("api", "call", RECONCILE),
    "api:report": Route("api", "report"),
    "api:report-export": Route("api", "version"),
    "api:report-version": Route("api", "version"),
    "api:commitments": Route("api"),
    "api:commitment-withdraw": Route("api", "commitment", WITHDRAW),
    "api:call-repeat": Route("api", "call", UPGRADE),
    "api:call-contradict": Route("api", "call", FLAG_BODY),
    "api:contradictions": Route("api"),
    "api:contradiction-close": Route("api", "contradiction", CLOSE_FLAG),
    "api:workspaces": Route("api"),
    "api:workspace-progress": Route("api", "workspace"),
    "api:memory": Route("api"),
    "api:grants": Route("api", act=GIVE_BODY),
    "api:grant": Route("api", "grant"),
    "api:grant-revoke": Route("api", "grant", REVOKE),
    "api:policies": Route("api", act=SAVE_POLICY),
    "api:policy": Route("api", "policy"),
    "api:policy-in-force": Route("api"),
    "api:policy-try": Route("api", act=TRY_POLICY, reads=False),
    "api:policy-activate": Route("api", "policy", GOVERN),
    "api:scopes": Route("api", act=SCOPE),
    "api:scope-preview": Route("api", reads=False),
    "api:scope": Route("api", "scope"),
    "api:scope-abort": Route("api", "scope", STOP),
    "api:scope-lift": Route("api", "scope", LIFT),
    "api:obligations": Route("api"),
    "api:obligation-release": Route("api", "obligation", RELEASE),
    "api:views": Route("api", act=KEEP_VIEW),
    "api:view-remove": Route("api", "view", DROP_VIEW),
    "api:bulks": Route("api", act=BULK),
    "api:bulk-preview": Route("api", reads=False),
    "api:bulk": Route("api", "bulk"),
    "api:endpoints": Route("api", act=TELL),
    "api:endpoint": Route("api", "endpoint"),
    "api:endpoint-change": Route("api", "endpoint", RENAME_TOLD),
    "api:endpoint-pause": Route("api", "endpoint", UNTELL),
    "api:endpoint-resume": Route("api", "endpoint", UNTELL),
    "api:endpoint-test": Route("api", "endpoint", UNTELL),
    "api:endpoint-remove": Route("api", "endpoint", UNTELL),
    "api:notices": Route("api"),
    "api:notices-purge": Route("api", act=PURGE_TOLD, reads=False),
    "api:missing": Route("api", "nothing"),
}
SOCKETS = {"ws/live/"}
INSTALLATION = "whoever runs the installation"


@dataclass(frozen=True)
class Verb:
    """A verb of the command line: what it names, the rest of a call that is refused even to those who may, and who may."""

    named: str
    rest: tuple[str, ...] = ()
    permission: Permission = Permission.READ


_STALE = ("--approve", "--revision", "1", "--digest", "0", "--args-digest", "0", "--reason", "walked")
VERBS: dict[tuple[str, ...], Verb | str] = {
    ("up",): INSTALLATION,
    ("watch",): INSTALLATION,
    ("idempotency_key",): INSTALLATION,
    ("tour",): INSTALLATION,
    ("seed_load",): INSTALLATION,
    ("views", "list"): Verb(""),
    ("views", "save"): Verb("", ("runs", "x" * 101)),
    ("views", "remove"): Verb("view", ("--name", "another"), Permission.GOVERN),
    ("bulks", "list"): Verb(""),
    ("bulks", "preview"): Verb("", ("stop",)),
    ("bulks", "act"): Verb("", ("stop", "--digest", "0", "--count", "0", "--reason", " "), Permission.STOP),
    ("bulks", "show"): Verb("bulk"),
    ("endpoints", "list"): Verb(""),
    ("endpoints", "told"): Verb(""),
    ("endpoints", "add"): Verb(
        "", ("webhook", "walked", "--address-from", "/dev/null", "--whole-tenant"), Permission.NOTIFY
    ),
    ("endpoints", "show"): Verb("endpoint"),
    ("endpoints", "change"): Verb("endpoint", ("--name", "walked"), Permission.NOTIFY),
    ("endpoints", "pause"): Verb("endpoint", (), Permission.NOTIFY),
    ("endpoints", "resume"): Verb("endpoint", (), Permission.NOTIFY),
    ("endpoints", "test"): Verb("endpoint", (), Permission.NOTIFY),
    ("endpoints", "purge"): Verb("", ("--reason", " "), Permission.RETAIN),
    ("endpoints", "remove"): Verb("endpoint", (), Permission.NOTIFY),
    ("members", "list"): INSTALLATION,
    ("members", "set"): INSTALLATION,
    ("members", "rules"): INSTALLATION,
    ("members", "token", "create"): INSTALLATION,
    ("members", "token", "revoke"): INSTALLATION,
    ("runs", "start"): Verb("agent", permission=Permission.START),
    ("runs", "list"): Verb(""),
    ("runs", "show"): Verb("run"),
    ("runs", "await"): Verb("run", ("--until", "COMPLETED", "--timeout", "0")),
    ("runs", "stop"): Verb("run", ("--reason", " "), Permission.STOP),
    ("runs", "abort"): Verb("run", ("--reason", " "), Permission.STOP),
    ("runs", "pause"): Verb("run", ("--reason", " "), Permission.PAUSE),
    ("runs", "resume"): Verb("run", ("--reason", "walked"), Permission.RESUME),
    ("runs", "settle"): Verb("run", ("--reason", " "), Permission.SETTLE),
    ("runs", "bind"): Verb("run", ("--reason", " "), Permission.REVISE),
    ("runs", "tag"): Verb("run", ("--add", "Walked In"), Permission.REVISE),
    ("runs", "revise-goal"): Verb("run", ("--reason", " ", "--goal", "walked"), Permission.REVISE),
    ("runs", "raise-cap"): Verb("run", ("--unit", "tokens", "--cap", "1", "--reason", " "), Permission.BUDGET),
    ("runs", "continue"): Verb("run", ("--reason", " "), Permission.START),
    ("runs", "fork"): Verb("checkpoint", ("--reason", " "), Permission.START),
    ("runs", "preview-fork"): Verb("checkpoint"),
    ("runs", "replay"): Verb("run"),
    ("runs", "lineage"): Verb("run"),
    ("runs", "handover"): Verb("run"),
    ("runs", "recovery"): Verb("run"),
    ("runs", "trace"): Verb("run"),
    ("runs", "ledger"): Verb("run", ("refusals",)),
    ("runs", "migrate"): Verb("run", ("--reason", " "), Permission.REVISE),
    ("runs", "repin"): Verb("run", ("--reason", " "), Permission.REVISE),
    ("waits", "list"): Verb(""),
    ("waits", "show"): Verb("wait"),
    ("waits", "decide"): Verb("wait", _STALE, Permission.DECIDE),
    ("waits", "withdraw"): Verb("wait", ("--reason", " ")),
    ("waits", "claim"): Verb("wait", permission=Permission.DECIDE),
    ("waits", "release"): Verb("wait", permission=Permission.DECIDE),
    ("waits", "assign"): Verb("wait", ("--to", "nobody", "--reason", " "), Permission.DECIDE),
    ("delegations", "list"): Verb(""),
    ("waits", "measures"): Verb(""),
    ("delegations", "give"): Verb("", ("--to", "nobody", "--until", "2030-01-01", "--reason", " "), Permission.DECIDE),
    ("delegations", "end"): Verb("delegation", permission=Permission.RETAIN),
    ("waits", "decide-many"): Verb("", ("--reject", "--items", "[]", "--reason", " "), Permission.DECIDE),
    ("waits", "answer"): Verb("wait", ("--text", "walked", *_STALE[1:-2]), Permission.DECIDE),
    ("waits", "decline"): Verb("wait", _STALE[1:], Permission.DECIDE),
    ("waits", "amend"): Verb("wait", ("--arguments", "{}", *_STALE[1:]), Permission.DECIDE),
    ("calls", "list"): Verb(""),
    ("calls", "show"): Verb("call"),
    ("calls", "probe"): Verb("call", ("--attempts", "99"), Permission.RECONCILE),
    ("calls", "attachment"): Verb("attachment", ("--save-to", "/dev/null")),
    ("calls", "attach"): Verb("call", ("--file", "/dev/null"), Permission.RECONCILE),
    ("calls", "reconcile"): Verb("call", ("--verdict", "EXECUTED", "--evidence", " "), Permission.RECONCILE),
    ("checkpoints", "list"): Verb("run"),
    ("checkpoints", "show"): Verb("checkpoint"),
    ("checkpoints", "export"): Verb("checkpoint"),
    ("checkpoints", "verify"): Verb("run"),
    ("checkpoints", "diff"): Verb("difference"),
    ("reports", "list"): Verb(""),
    ("reports", "export"): Verb("run of a report", ("--file", "/dev/null")),
    ("reports", "show"): Verb("run of a report"),
    ("calls", "repeat"): Verb("call", ("--reason", " "), Permission.REVISE),
    ("calls", "contradict"): Verb("call", ("--says", "EXECUTED", "--evidence", " "), Permission.RECONCILE),
    ("contradictions", "list"): Verb(""),
    ("contradictions", "close"): Verb("contradiction", ("--how", "NOTED", "--reason", " "), Permission.RECONCILE),
    ("scopes", "list"): Verb(""),
    ("scopes", "show"): Verb("scope"),
    ("scopes", "preview"): Verb("", ("tenant",)),
    ("scopes", "stop"): Verb("", ("tenant", "--reason", " "), Permission.STOP),
    ("scopes", "abort"): Verb("", ("tenant", "--reason", " "), Permission.STOP),
    ("scopes", "pause"): Verb("", ("tenant", "--reason", " "), Permission.PAUSE),
    ("scopes", "abort-on"): Verb("scope", ("--reason", " "), Permission.STOP),
    ("scopes", "lift"): Verb("scope", ("--reason", " "), Permission.STOP),
    ("workspaces", "list"): Verb(""),
    ("workspaces", "show"): Verb("workspace"),
    ("memory", "list"): Verb(""),
    ("retain",): Verb("", ("--reason", "walked"), Permission.RETAIN),
    ("grants", "list"): Verb(""),
    ("grants", "show"): Verb("grant"),
    ("grants", "give"): Verb("tool", ("--hours", "0", "--uses", "0", "--reason", " "), Permission.DECIDE),
    ("grants", "revoke"): Verb("grant", ("--reason", " "), Permission.DECIDE),
    ("policies", "list"): Verb(""),
    ("policies", "in-force"): Verb(""),
    ("policies", "show"): Verb("policy"),
    ("policies", "diff"): Verb("two policies"),
    ("policies", "save"): Verb("", ("--file", "/dev/null", "--summary", " "), Permission.GOVERN),
    ("policies", "try"): Verb("", ("--file", "/dev/null"), Permission.GOVERN),
    ("policies", "activate"): Verb("policy", ("--seen", "7", "--reason", " "), Permission.GOVERN),
    ("audit", "verify"): Verb("", permission=Permission.AUDIT),
    ("commitments", "list"): Verb(""),
    ("commitments", "withdraw"): Verb("commitment", ("--reason", " "), Permission.REVISE),
    ("obligations", "list"): Verb(""),
    ("obligations", "release"): Verb("obligation", ("--reason", " "), Permission.RELEASE),
}
