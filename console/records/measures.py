"""Records of how a team decides."""

from rest_framework import serializers

from approvals.reports import Measures, OfPerson, OfTool, Totals


class TotalsRecord(serializers.Serializer[Totals]):
    """Counts of the waits that opened in the time; seconds to the first look at one and to its decision."""

    opened = serializers.IntegerField()
    decided = serializers.IntegerField()
    approved = serializers.IntegerField()
    expired = serializers.IntegerField()
    asked_again = serializers.IntegerField()
    look_median = serializers.FloatField(allow_null=True)
    look_p95 = serializers.FloatField(allow_null=True)
    decision_median = serializers.FloatField(allow_null=True)
    decision_p95 = serializers.FloatField(allow_null=True)
    votes = serializers.IntegerField()
    quick = serializers.IntegerField()


class PersonMeasure(serializers.Serializer[OfPerson]):
    """What one person voted; `quick` are approvals within three seconds of their first look."""

    person = serializers.CharField()
    votes = serializers.IntegerField()
    approved = serializers.IntegerField()
    withdrawn = serializers.IntegerField()
    quick = serializers.IntegerField()
    own_median = serializers.FloatField(allow_null=True)


class ToolMeasure(serializers.Serializer[OfTool]):
    """What became of the waits for one tool."""

    tool = serializers.CharField()
    opened = serializers.IntegerField()
    decided = serializers.IntegerField()
    approved = serializers.IntegerField()
    expired = serializers.IntegerField()
    decision_median = serializers.FloatField(allow_null=True)


class MeasuresRecord(serializers.Serializer[Measures]):
    """The measures of a team."""

    days = serializers.IntegerField()
    totals = TotalsRecord()
    people = PersonMeasure(many=True)
    tools = ToolMeasure(many=True)
