"""Policies over HTTP: list, show, save, try, put in force."""

from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api import refused_response
from accounts.errors import Refused
from approvals.selectors import access_policy
from approvals.services import policy_activate, policy_save
from console.api.lists import narrowed
from console.api.paging import Order, PageQuery
from console.api.parsing import Strict, Text, Whole, read
from console.api.view import ApiView, answer, operation, paged
from console.lists.policies import POLICIES
from console.records.policies import InForceRecord, PolicyRecord, PolicySummary, RehearsalRecord, in_force
from runtime.services import policy_rehearse

NEWEST_FIRST = Order(("number",))


class PolicyQuery(PageQuery):
    """Filters of the list of policies, as its page takes them. `q` is a part of the summary, `text` of what it says; `person` saved it;
    `since` and `until` are a day, a moment or so long ago (`12 h`).
    """

    q = Text(required=False)
    text = Text(required=False)
    person = Text(required=False)
    since = Text(required=False)
    until = Text(required=False)


class PolicyBody(Strict):
    """A policy as it is written, and what it is for in one line."""

    text = Text()
    summary = Text()


class RehearsalBody(Strict):
    """A policy as it is written, and how many of the newest calls to try it on."""

    text = Text()
    limit = Whole(required=False, default=100)


class ActivationBody(Strict):
    """Why this version is put in force, and the number of the one that the person saw in force."""

    seen = Whole()
    reason = Text()


class Policies(ApiView):
    """The versions of the tenant's policy."""

    @operation("policies_list", paged(PolicySummary), query=PolicyQuery, can=())
    def get(self, request: Request) -> Response:
        """The newest first. A version is a draft until it is put in force."""
        query = read(PolicyQuery, request.query_params)
        return self.page("policies", narrowed(POLICIES, self.actor, query), NEWEST_FIRST, query, PolicySummary)

    @operation("policies_save", PolicyRecord, body=PolicyBody, can=(403,), statuses=(200, 201))
    def post(self, request: Request) -> Response:
        """Save a text as the next version. 200 where it is the newest one already. Nothing goes by it before it is in force."""
        said = read(PolicyBody, request.data)
        saved = policy_save(actor=self.actor, text=said["text"], summary=said["summary"])
        if isinstance(saved, Refused):
            return refused_response(saved)
        record = PolicyRecord(access_policy(actor=self.actor, number=saved.number)).data
        return Response(record, status=201 if saved.new else 200)


class PolicyInForceView(ApiView):
    """The policy that is in force."""

    @operation("policies_in_force", InForceRecord, can=())
    def get(self, request: Request) -> Response:
        """The version in force, and every time that another one came, the newest first."""
        return Response(InForceRecord(in_force(self.actor)).data)


class PolicyRehearsal(ApiView):
    """A dry run."""

    @operation("policies_try", RehearsalRecord, body=RehearsalBody, can=(403,))
    def post(self, request: Request) -> Response:
        """What a text would say of the newest calls. It changes nothing."""
        said = read(RehearsalBody, request.data)
        found = policy_rehearse(actor=self.actor, text=said["text"], limit=said["limit"])
        return refused_response(found) if isinstance(found, Refused) else Response(RehearsalRecord(found).data)


class OnePolicy(ApiView):
    """One version."""

    @operation("policies_show", PolicyRecord)
    def get(self, request: Request, number: int) -> Response:
        """Its text, and who saved it."""
        return Response(PolicyRecord(access_policy(actor=self.actor, number=number)).data)


class PolicyActivationView(ApiView):
    """The act that puts a version in force."""

    @operation("policies_activate", InForceRecord, body=ActivationBody, can=(403, 404, 409))
    def post(self, request: Request, number: int) -> Response:
        """Put a version in force; 0 is the built-in policy. Open waits are asked anew, run by run."""
        said = read(ActivationBody, request.data)
        done = policy_activate(actor=self.actor, number=number, seen=said["seen"], reason=said["reason"])
        return answer(done, lambda: InForceRecord(in_force(self.actor)).data)
