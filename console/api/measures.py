"""How the team decides, over HTTP."""

from rest_framework.request import Request
from rest_framework.response import Response

from approvals.reports import measures_of
from console.api.parsing import Strict, Whole, read
from console.api.view import ApiView, operation
from console.records.measures import MeasuresRecord


class MeasuresQuery(Strict):
    """Over how many days."""

    days = Whole(min_value=1, max_value=3650, default=30)


class MeasuresView(ApiView):
    """Measures of the team."""

    @operation("measures", MeasuresRecord, query=MeasuresQuery, can=())
    def get(self, request: Request) -> Response:
        """Time to the first look and to the decision, shares of yes by person and tool, what expired or was asked again."""
        days = read(MeasuresQuery, request.query_params)["days"]
        return Response(MeasuresRecord(measures_of(actor=self.actor, days=days)).data)
