"""Who is shown which arguments: the one function behind every door that shows something of a call (D-083, T27).

Marked fields are masked for everybody, but on the door of one call or one wait for those who may decide that wait, who may
say what is known of that call, or who govern. What is masked there is masked as well in what model and tools said.
"""

import hmac
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from accounts.audit import audit_append
from accounts.codec import BodyChanged, wrapping_key
from accounts.selectors import audited_lately
from accounts.states import Actor, Permission
from approvals.policies import WITHHELD, Mark, Policy, Veiled, mark_at, value_without, veil
from approvals.selectors import policy_number, policy_of
from approvals.services import may_decide_call
from receipts.selectors import call_arguments, calls_of_tools, tools_called, word_was_asked
from runs.canonical import NotCanonical, parse
from runs.selectors import agent_pinned
from runtime.registry import agents, tool_of
from runtime.tools.registry import tool_marks

SEEN = "arguments.seen"


class Mask:
    """What is masked of one call in one answer. `hidden` are the marks that hold for whoever asks, `seen` those that do not."""

    def __init__(self, call: Any, marks: Sequence[Mark], seen: Sequence[Mark]) -> None:
        self.call = call
        self.seen = tuple(seen)
        self.hidden = tuple(mark for mark in marks if mark not in self.seen)

    @cached_property
    def arguments(self) -> Veiled:
        """The arguments as they are shown. Raises BodyChanged, and NotCanonical for bytes that are no JSON."""
        return self._veiled(self.hidden)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The places that are masked; all of them where the arguments can't be read."""
        return self._or(lambda: self.arguments.paths, ("$",)) if self.hidden else ()

    @cached_property
    def marked(self) -> tuple[str, ...]:
        """The places that are masked for somebody."""
        marks = (*self.hidden, *self.seen)
        return self._or(lambda: self._veiled(marks).paths, ("$",)) if marks else ()

    def value(self, value: Any) -> Any:
        """What the call's tool gave, or said, without what is masked of its arguments."""
        if not self.hidden:
            return value
        texts = self._or(lambda: self.arguments.texts, None)
        return {WITHHELD: "the arguments can't be read"} if texts is None else value_without(value, texts)

    def _veiled(self, marks: Sequence[Mark]) -> Veiled:
        return veil(parse(call_arguments(self.call)), marks, digest=_digest_for(self.call.tenant_id))

    @staticmethod
    def _or(read: Any, otherwise: Any) -> Any:
        try:
            return read()
        except (BodyChanged, NotCanonical):
            return otherwise


class Masks:
    """What is masked in one answer, which reads the policy once. `actor`: who asks, on the door of one call or one wait; None
    wherever calls are listed, told or replayed, where nobody is shown what is marked.
    """

    def __init__(self, actor: Actor | None = None, *, policy: int | None = None) -> None:
        """`policy`: the number of the version in force, where the caller has read it for the one tenant that it asks about."""
        self._actor = actor
        self._number = policy
        self._policies: dict[UUID, Policy] = {}
        self._known: dict[UUID, Mask] = {}

    def of(self, call: Any, *, run: Any = None) -> Mask:
        """The mask of a call. `run`: its run, where the caller has it."""
        if call.id not in self._known:
            marks = self.marks(run or call.run, call.tool)
            seen = self._seen(call, marks) if marks and self._actor else ()
            self._known[call.id] = Mask(call, marks, seen)
        return self._known[call.id]

    def marks(self, run: Any, tool: str) -> tuple[Mark, ...]:
        """What is marked of a tool in a run: by the version that the run is pinned to, by the tool as it is installed, and by
        the policy in force.
        """
        version = agent_pinned(run.agent_version_id)
        agent = agents().get(version.key)
        installed = tool_of(agent.spec, tool) if agent else None
        by_tool = (*_pinned(version.manifest, tool), *(tool_marks(installed) if installed else ()))
        return tuple(dict.fromkeys((*by_tool, *self._policy(run.tenant_id).marks(tool=tool, agent=version.key))))

    def texts_in_run(self, run: Any) -> tuple[str, ...]:
        """Every text that is masked of the calls of a run, the longest first: what nothing that is told of it may repeat."""
        if not self._marks_anything(run):
            return ()
        tools = [tool for tool in tools_called(run_id=run.id) if self.marks(run, tool)]
        masks = [self.of(call, run=run) for call in calls_of_tools(run_id=run.id, tools=tools)] if tools else []
        texts = {text for mask in masks if mask.paths != ("$",) for text in mask.arguments.texts}
        return tuple(sorted(texts, key=len, reverse=True))

    def _marks_anything(self, run: Any) -> bool:
        """Whether anything of any tool of a run is marked; where not, nothing has to be looked up."""
        version = agent_pinned(run.agent_version_id)
        agent, policy = agents().get(version.key), self._policy(run.tenant_id)
        pinned = any(tool.get("sensitive") for tool in version.manifest.get("tools", ()))
        installed = agent is not None and any(tool_marks(tool) for tool in agent.spec.tools)
        return pinned or installed or policy.masks_anything

    def proposed(self, run: Any, turn: dict[str, Any]) -> Veiled:
        """A sealed turn, `{"text", "proposals"}`, with the marked arguments of what it proposes masked, and its text."""
        key, proposals, texts = _digest_for(run.tenant_id), [], set[str]()
        for proposal in turn["proposals"]:
            shown = veil(proposal["arguments"], self.marks(run, proposal["tool"]), digest=key)
            proposals.append({**proposal, "arguments": shown.value})
            texts.update(shown.texts)
        hidden = tuple(sorted(texts | set(self.texts_in_run(run)), key=len, reverse=True))
        return Veiled(value_without({**turn, "proposals": proposals}, hidden), texts=hidden)

    def tell(self) -> None:
        """Record in the audit chain who was shown what is marked so; once a quarter of an hour for each person and call."""
        for mask in self._known.values():
            marks = [mark for mark in mask.seen if mark.audited]
            if marks and self._actor:
                _record(self._actor, mask.call, marks)

    def _seen(self, call: Any, marks: Sequence[Mark]) -> tuple[Mark, ...]:
        actor = self._actor
        if actor is None or not self._is_concerned(actor, call):
            return ()
        return tuple(mark for mark in marks if not mark.shown_to or _is_in(actor, mark.shown_to))

    @staticmethod
    def _is_concerned(actor: Actor, call: Any) -> bool:
        if actor.may(Permission.GOVERN) or may_decide_call(actor=actor, call_id=call.id):
            return True
        return actor.may(Permission.RECONCILE) and word_was_asked(call)

    def _policy(self, tenant_id: UUID) -> Policy:
        if tenant_id not in self._policies:
            self._policies[tenant_id] = policy_of(
                tenant_id, policy_number(tenant_id) if self._number is None else self._number
            )
        return self._policies[tenant_id]


def hidden_texts(call: Any) -> tuple[str, ...]:
    """The texts of a stored call that nothing which is stored to be read may repeat."""
    mask = Masks().of(call)
    return mask.arguments.texts if mask.hidden else ()


def _pinned(manifest: Mapping[str, Any], tool: str) -> list[Mark]:
    """What a tool marked when the run was pinned to it."""
    described: dict[str, Any] = next((one for one in manifest.get("tools", ()) if one["key"] == tool), {})
    return [mark_at(one["path"], audited=one["audited"]) for one in described.get("sensitive", ())]


def _digest_for(tenant_id: UUID) -> Any:
    """What names a masked value within a tenant. Without the installation's key nobody can try values against it."""
    key = hmac.digest(wrapping_key(settings.MASTER_KEY), b"signalbox mask v1\0" + tenant_id.bytes, "sha256")
    return lambda plain: hmac.digest(key, plain, "sha256").hex()


def _is_in(actor: Actor, whom: str) -> bool:
    kind, _, name = whom.partition(":")
    return name in (actor.groups if kind == "group" else actor.roles)


def _record(actor: Actor, call: Any, marks: Sequence[Mark]) -> None:
    if audited_lately(actor=actor, action=SEEN, object_id=call.id):
        return
    detail = {
        "run": str(call.run_id),
        "fields": [".".join(mark.path) for mark in marks],
        "args_digest": call.args_digest,
    }
    with transaction.atomic():
        audit_append(actor=actor, action=SEEN, object_type="call", object_id=call.id, detail=detail)
