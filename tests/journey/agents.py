"""The fund comparison as a deploy brings it that changed a tool."""

from dataclasses import replace
from typing import ClassVar

from runtime.agents.fund_comparison import FundComparison
from runtime.contracts import AgentSpec
from runtime.tools.publish import PublishReport


class PublishReportAnew(PublishReport):
    """The same under another version, which is part of its definition."""

    version: ClassVar[str] = "2"


class Redefined(FundComparison):
    """Publishes with the other version."""

    spec: ClassVar[AgentSpec] = replace(
        FundComparison.spec,
        tools=tuple(PublishReportAnew() if type(tool) is PublishReport else tool for tool in FundComparison.spec.tools),
    )
