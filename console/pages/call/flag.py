"""What the page of a flag shows of its call: what is disputed, who said what and when, and where one can look."""

from collections.abc import Mapping
from typing import Any

from accounts.states import Actor
from console.pages.call.facts import CallFacts
from console.pages.call.say import title_of
from console.pages.tool_facts import tool_facts
from receipts.models import Contradiction
from receipts.selectors import access_call


def flag_facts(flag: Contradiction, actor: Actor) -> Mapping[str, Any]:
    """The call of a flag that `access_contradiction` has given out, for its page. Whatever is masked of its arguments is shown to
    whoever may see it, and that they looked is recorded where that is wanted.
    """
    call = access_call(actor=actor, id=flag.tool_call_id)
    shown = CallFacts(call, actor)
    arguments = shown.arguments
    shown.masks.tell()
    return {
        "call": call,
        "shown": shown,
        "call_title": title_of(shown),
        "arguments_shown": arguments,
        "raised": next(one for one in shown.raised if one.row.id == flag.id),
        "tool": tool_facts(call, agent_key=call.run.agent_version.agent.key),
        "of_inbox": True,
    }
