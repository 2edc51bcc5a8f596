"""Every page of the console, in the states that change what it looks like, for the tests that look at all of them."""

from dataclasses import dataclass

from django.urls import reverse

from checkpoints.models import Commitment, Head, Obligation
from receipts.models import ReportVersion
from runs.models import Run
from tests.pages.looks.furnish import House

ANN, NOBODY, NEWCOMER = "ann.moreau", "", "n.ewcomer"
# Pages that are no page of their own: what they answer with is a part of another one, a file, or a redirect.
FILES = {"call-attachment", "wait-answer-file", "report-download", "report-md", "report-html", "report-pdf"}
PARTS = {"overview-parts", "audit-verified", "inbox-count", "sign-out", "wait-look"} | FILES


@dataclass(frozen=True)
class Place:
    """One page: a name for its pictures, the route that it shows, its path, and who looks at it."""

    name: str
    route: str
    path: str
    who: str = ANN
    status: int = 200


def place(name: str, route: str, query: str = "", **named: object) -> Place:
    return Place(name, route, reverse(route, kwargs=named) + query)


def places(house: House) -> list[Place]:
    """All of them. The database that the house stands in must be the current one."""
    return [*_lists(house), *_runs(house), *_acts(house), *_things(house), *_doors()]


def _doors() -> list[Place]:
    empty = (
        "overview",
        "inbox",
        "views",
        "runs",
        "waits",
        "calls",
        "notices",
        "audit",
        "search",
        "reports",
        "policies",
        "grants",
        "scopes",
        "workspaces",
        "memory",
    )
    nothing = [
        Place(f"empty-{route}", route, reverse(route), NEWCOMER) for route in (*empty, "delegations", "measures")
    ]
    return [
        Place("sign-in", "sign-in", "/sign-in/", NOBODY),
        place("tenant", "tenant"),
        Place("missing", "", "/nowhere/", status=404),
        *nothing,
        Place("empty-tour", "tour", "/tour/", NEWCOMER),
        Place("empty-notifications", "notifications", "/settings/notifications/", NEWCOMER),
    ]


def _lists(house: House) -> list[Place]:
    listed = ("overview", "inbox", "runs", "scopes", "delegations", "measures", "reports", "grants", "policies")
    shown = [place(route, route) for route in (*listed, "workspaces", "memory", "notifications", "design", "tour")]
    batch = "".join(f"&wait={id}" for id in house.waits.values()).replace("&", "?", 1)
    return [
        *shown,
        place("inbox-unknown", "inbox", f"?item=call-{house.calls['lost']}"),
        place("inbox-held", "inbox", f"?kind=held&item=run-{house.runs['refused']}"),
        place("inbox-mine", "inbox", "?whose=mine"),
        place("inbox-flag", "inbox", f"?kind=flags&item=flag-{house.others['flag']}"),
        place("inbox-batch", "inbox-batch", batch),
        place("runs-filtered", "runs", "?status=HELD&q=Claims"),
        place("runs-unread", "runs", "?status=BROKEN&since=soon&colour=red"),
        *(place(route, route) for route in ("waits", "calls", "notices", "audit", "bulks")),
        place("bulk-new", "bulk-new", "?act=STOP&query=status%3DWAITING"),
        place("bulk-new-none", "bulk-new", "?act=RESUME&query=q%3Dnothing-is-called-so"),
        place("bulk", "bulk", id=house.others["bulk"]),
        place("views", "views"),
        place("view", "view-remove", id=house.others["view"]),
        place("waits-open", "waits", "?status=OPEN&columns=step&columns=rule&columns=deadline"),
        place("search", "search", "?q=overlap"),
        place("search-nothing", "search", "?q=nothing-is-called-so"),
        place("runs-none", "runs", "?q=nothing-is-called-so"),
        place("run-new", "run-new", "?agent=fund_comparison"),
        place("run-new-claims", "run-new", "?agent=evidence_search"),
    ]


def _runs(house: House) -> list[Place]:
    runs = [place(f"run-{name}", "run", id=id) for name, id in house.runs.items()]
    live, done = house.runs["waiting"], house.runs["published"]
    head = Head.objects.get(run_id=done).revision
    return [
        *runs,
        place("run-event", "run", "?at=rev:2&fold=0", id=done),
        place("run-frozen", "run", "?size=25&after=1970-01-01T00:00:00.000000Z~0~", id=done),
        *(place(f"run-{page}", f"run-{page}", id=done) for page in ("recovery", "replay", "handover", "lineage")),
        place("run-handover-waiting", "run-handover", id=live),
        place("run-recovery-unknown", "run-recovery", id=house.runs["lost"]),
        place("checkpoints", "checkpoints", id=done),
        place("checkpoint", "checkpoint", id=done, revision=head),
        place("checkpoint-first", "checkpoint", id=done, revision=1),
        place("checkpoint-awaiting", "checkpoint", id=live, revision=Head.objects.get(run_id=live).revision),
        place("fork", "checkpoint-fork", id=done, revision=2),
    ]


def _acts(house: House) -> list[Place]:
    live, held, done = house.runs["waiting"], house.runs["refused"], house.runs["published"]
    promise = Obligation.objects.filter(run_id=live, status="OPEN")[0]
    term = Commitment.objects.filter(run_id=live)[0]
    return [
        *(
            place(f"run-{act}", f"run-{act}", id=live)
            for act in ("pause", "bind", "goal", "budget", "tags", "migrate", "repin")
        ),
        *(place(f"run-{act}", f"run-{act}", id=held) for act in ("retry", "settle")),
        place("run-continue", "run-continue", id=done),
        place("stop", "stop", id=live),
        place("stop-sending", "stop", id=house.runs["sending"]),
        place("stop-adopted", "stop", id=house.runs["stopping"]),
        place("stop-over", "stop", id=done),
        place("scope-new", "scope-new", f"?scope=THREAD&of={Run.objects.get(id=live).thread_id}"),
        place("commitment-withdraw", "commitment-withdraw", id=term.id),
        place("obligation-release", "obligation-release", id=promise.id),
        place("call-repeat", "call-repeat", id=house.calls["answered"]),
        place("call-contradict", "call-contradict", id=house.calls["answered"]),
        place("contradiction-close", "contradiction-close", id=house.others["flag"]),
        place("delegation-end", "delegation-end", id=house.others["delegation"]),
        place("notification", "notification", id=house.others["endpoint"]),
        place("notification-remove", "notification-remove", id=house.others["endpoint"]),
        *(place(f"wait-{act}", f"wait-{act}", id=house.waits["open"]) for act in ("amend", "withdraw", "assign")),
    ]


def _things(house: House) -> list[Place]:
    version = ReportVersion.objects.filter(run_id=house.runs["published"]).latest("version_no")
    workspace = Run.objects.get(id=house.runs["research"]).workspace_id
    return [
        *(place(f"wait-{name}", "wait", id=id) for name, id in house.waits.items()),
        place("question", "wait", id=house.others["question"]),
        place("question-answered", "wait", id=house.others["question-answered"]),
        place("inbox-questions", "inbox", f"?kind=questions&item=wait-{house.others['question']}"),
        *(place(f"call-{name}", "call", id=id) for name, id in house.calls.items()),
        place("report", "report", id=version.report_id),
        place("report-difference", "report", f"?version={version.version_no}&against=1", id=version.report_id),
        place("report-source", "report", f"?version={version.version_no}&against=1&as=source", id=version.report_id),
        place("scope", "scope", id=house.others["scope"]),
        place("grant", "grant", id=house.others["grant"]),
        place("policy", "policy", number=house.policy),
        place("policy-built-in", "policy", number=0),
        place("policy-new", "policy-new"),
        place("workspace", "workspace", id=workspace),
    ]
