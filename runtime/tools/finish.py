"""t7: the end of the work. The loop reads it as control; it is never dispatched."""

from pydantic import Field

from runtime.contracts import Arguments, ToolSpec


class FinishArguments(Arguments):
    summary: str = Field(
        min_length=1, max_length=2000, description="What was done and what was not, in a few sentences."
    )


FINISH = ToolSpec(
    key="finish",
    description="End the work. Say what was done and what was not.",
    schema=FinishArguments.model_json_schema(),
)
