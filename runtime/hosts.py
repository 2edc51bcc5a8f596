"""The hosts: they bind what a model proposed to tools and keys, and run one attempt of a tool or a model call.

A host never writes a row. It says what one try gave; the loop records it.
"""

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from accounts.keys import new_id
from approvals.policies import Mark, texts_at, without
from checkpoints.envelope import secret_in, withheld
from receipts.selectors import RunKeys
from receipts.statements import NewCall, NewProposal
from receipts.states import AttemptOutcome, Disposition
from runs.canonical import (
    MAX_BYTES,
    MAX_INTEGER,
    NotCanonical,
    bounded,
    canonical,
    check,
    digest,
    idempotency_key,
    intent_key,
    storable,
)
from runs.faults import reach
from runtime.contracts import (
    ANSWER_BYTES,
    AgentSpec,
    Arguments,
    Gateway,
    ModelFailed,
    ModelRequest,
    ModelRetryable,
    ModelTurn,
    ModelUnknown,
    PriorResult,
    ProposedCall,
    Tool,
    ToolContext,
    ToolFailed,
    ToolOutcome,
    ToolPending,
    ToolRetryable,
    ToolUnknown,
)
from runtime.keyring import Keyring
from runtime.tools.finish import FINISH
from runtime.tools.registry import definition_hash

logger = logging.getLogger(__name__)

REFUSAL_LIMIT = 500
CALLS_PER_TURN = 64
STEP_NAME_LIMIT = 200


@dataclass(frozen=True)
class Bound:
    """A proposal bound to a tool: a new call with its completed arguments, a known call, a refusal, or the end."""

    proposal: NewProposal
    call: NewCall | None = None
    tool: Tool | None = None
    args: Arguments | None = None


class _Unusable(ValueError):
    """The proposal can't be used; the text goes to the model."""


def bind_turn(
    turn: ModelTurn,
    *,
    spec: AgentSpec,
    run_id: UUID,
    results: Sequence[PriorResult],
    keys: RunKeys,
    marks: Callable[[Tool], Sequence[Mark]],
    epochs: Mapping[str, int] = MappingProxyType({}),
) -> list[Bound]:
    """Bind every proposal of a turn, in order. A key that is already live in the run, or earlier in this turn, is reused;
    one whose outcome nobody knows and that the run went on without is refused.

    `marks` gives the arguments of a tool that not everybody may see: no step name and no refusal repeats them.
    `epochs` says how often what a step observed has lapsed: reading it again is a step of its own (T06).
    """
    now = replace(keys, live=dict(keys.live))
    bound: list[Bound] = []
    for ordinal, proposed in enumerate(turn.proposals):
        if proposed.tool == FINISH.key:
            bound.append(_bind_finish(ordinal, proposed, alone=len(turn.proposals) == 1))
            continue
        item = _bind(ordinal, proposed, spec, run_id, results, now, marks, epochs)
        if item.call is not None:
            now.live[item.call.idempotency_key] = item.call.id
        bound.append(item)
    return bound


def bind_written(
    written: ProposedCall,
    *,
    spec: AgentSpec,
    run_id: UUID,
    results: Sequence[PriorResult],
    keys: RunKeys,
    marks: Callable[[Tool], Sequence[Mark]],
    epochs: Mapping[str, int] = MappingProxyType({}),
) -> Bound:
    """Bind a call that a person wrote, by the same rules as a model's proposal."""
    return _bind(0, written, spec, run_id, results, keys, marks, epochs)


def _bind_finish(ordinal: int, proposed: ProposedCall, *, alone: bool) -> Bound:
    args_digest = _digest_of(proposed.arguments)
    if alone:
        return Bound(NewProposal(ordinal, FINISH.key, args_digest, Disposition.FINISH))
    why = "finish must be proposed alone, when nothing is left to do"
    return Bound(NewProposal(ordinal, FINISH.key, args_digest, Disposition.REFUSED, refusal=why))


def _bind(
    ordinal: int,
    proposed: ProposedCall,
    spec: AgentSpec,
    run_id: UUID,
    results: Sequence[PriorResult],
    keys: RunKeys,
    marks: Callable[[Tool], Sequence[Mark]],
    epochs: Mapping[str, int],
) -> Bound:
    tool = next((tool for tool in spec.tools if tool.key == proposed.tool), None)
    marked = marks(tool) if tool else ()
    try:
        if ordinal >= CALLS_PER_TURN:
            raise _Unusable(f"at most {CALLS_PER_TURN} calls a turn")
        if tool is None:
            raise _Unusable(f"unknown tool {withheld(proposed.tool)}")
        args, value, step_name = _complete(tool, proposed, results, marked, epochs)
        plain = canonical(value, max_bytes=MAX_BYTES)
        step_name = _granted_step(step_name, value, keys.granted)
        key = idempotency_key(run_id=run_id, step_name=step_name, args=value)
        if key in keys.given_up:
            raise _Unusable(f"{step_name} was sent, and nobody knows whether it happened; it will not be sent again")
    except (_Unusable, NotCanonical) as error:
        args_digest = _digest_of(proposed.arguments)
        named = bounded(withheld(proposed.tool), 200)
        said = _said(error, Keyring(_hidden(proposed.arguments, marked)))
        return Bound(NewProposal(ordinal, named, args_digest, Disposition.REFUSED, refusal=said))
    intent = intent_key(step_name=step_name, args=value)
    known = keys.live.get(key) or keys.carried.get(intent)
    if known is not None:
        return Bound(NewProposal(ordinal, tool.key, digest(plain), Disposition.REUSED, call=known), tool=tool)
    call = NewCall(
        id=new_id(),
        ordinal=keys.ordinal + 1 + ordinal,
        tool=tool.key,
        tool_version=tool.version,
        tool_hash=definition_hash(tool),
        effect_class=tool.effect_class,
        step_name=step_name,
        args=plain,
        args_digest=digest(plain),
        idempotency_key=key,
        intent_key=intent,
        timeout=tool.timeout_seconds,
    )
    return Bound(NewProposal(ordinal, tool.key, call.args_digest, Disposition.NEW, call=call.id), call, tool, args)


def _hidden(arguments: Any, marked: Sequence[Mark]) -> Sequence[str]:
    """The marked texts of proposed arguments; those that are not canonical are said nothing of but their place."""
    if not marked:
        return ()
    try:
        canonical(arguments)
        return texts_at(arguments, marked)
    except NotCanonical:
        return ()


def _complete(
    tool: Tool,
    proposed: ProposedCall,
    results: Sequence[PriorResult],
    marked: Sequence[Mark],
    epochs: Mapping[str, int],
) -> tuple[Arguments, dict[str, Any], str]:
    try:
        args = tool.complete(tool.arguments.model_validate_json(canonical(proposed.arguments)), results)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "arguments"
        raise _Unusable(f"{place}: {first['msg']}") from error
    except NotCanonical:
        raise
    except ValueError as error:
        raise _Unusable(str(error)) from error
    value = args.model_dump(mode="json")
    step_name = base_step(tool, args, marked)
    if tool.half_life_seconds is not None and epochs.get(step_name, 0):
        step_name = f"{step_name}~{epochs[step_name] + 1}"
    if len(step_name) > STEP_NAME_LIMIT:
        raise _Unusable(f"the step name is longer than {STEP_NAME_LIMIT} characters")
    found = secret_in(step_name)
    if found:
        raise _Unusable(f"the step name looks like a {found}, which may not be stored; name the step without it")
    return args, value, step_name


def _granted_step(step_name: str, value: dict[str, Any], granted: Collection[str]) -> str:
    """The step with the epoch that a person has given it by asking for a second effect, or a third (T07)."""
    named, epoch = step_name, 1
    while granted and intent_key(step_name=named, args=value) in granted:
        epoch += 1
        named = f"{step_name}#{epoch}"
    return named


def base_step(tool: Tool, args: Arguments, marked: Sequence[Mark]) -> str:
    """The name of the step that a call is, whatever its epoch. It repeats nothing that is masked of its arguments."""
    named = f"{tool.key}/{tool.step_label(args)}"
    return without(named, texts_at(args.model_dump(mode="json"), marked)) if marked else named


def _digest_of(arguments: Any) -> str:
    """A digest of proposed arguments that may not be canonical; identifies what was refused without keeping it."""
    try:
        return digest(canonical(arguments))
    except NotCanonical:
        return digest(repr(arguments).encode("utf-8", "surrogatepass"))


@dataclass(frozen=True)
class Tried:
    """What one attempt of a tool gave, and how long it was on the wire. Exactly one of the four holds.

    `pending` says of a retryable answer that it comes when a child run has ended.
    """

    outcome: ToolOutcome | None = None
    value: bytes = b""
    failed: str = ""
    retryable: str = ""
    unknown: str = ""
    final_as: AttemptOutcome = AttemptOutcome.ERROR_FINAL
    retry_after: float | None = None
    took_ms: int = 0
    pending: bool = False


def try_tool(tool: Tool, context: ToolContext, args: Arguments) -> Tried:
    """Run one attempt. Anything that is not a clear answer is unknown, never a failure."""
    started = time.monotonic()
    return replace(_run(tool, context, args), took_ms=_ms_since(started))


def _ms_since(started: float) -> int:
    return math.ceil((time.monotonic() - started) * 1000)


def _run(tool: Tool, context: ToolContext, args: Arguments) -> Tried:
    keys = Keyring(context.hidden)
    try:
        outcome = keys.answered(tool.run(replace(context, secret=keys), args))
        reach("after_response", tool.key)
        _check_texts(outcome)
        return Tried(outcome=outcome, value=canonical(outcome.value, max_bytes=ANSWER_BYTES))
    except ToolFailed as error:
        return Tried(failed=_said(error, keys), final_as=error.outcome)
    except ToolRetryable as error:
        pending = isinstance(error, ToolPending)
        return Tried(retryable=_said(error, keys), retry_after=error.retry_after, pending=pending)
    except ToolUnknown as error:
        return Tried(unknown=_said(error, keys))
    except NotCanonical as error:
        return Tried(unknown=f"answered, but the answer can't be stored: {_said(error, keys)}")
    except Exception as error:  # noqa: BLE001 - a tool's own bug after sending must not pass for "did not happen"
        return Tried(unknown=f"the tool broke off: {type(error).__name__}: {_said(error, keys)}")


def _check_texts(outcome: ToolOutcome) -> None:
    """Raise NotCanonical, naming the place, where what stands beside an answer's value can't be stored: its reference would
    not lead to what happened any more if it were cut or mended.
    """
    report = outcome.report
    texts = [
        ("external_ref", outcome.external_ref or "", 500),
        ("target", outcome.target, 200),
        ("remark", outcome.remark, REFUSAL_LIMIT),
        *((("report.title", report.title, 200), ("report.body", report.body, ANSWER_BYTES)) if report else ()),
        *(("memory.subject", memory.subject, 200) for memory in outcome.memories),
        *(("memory.text", memory.text, ANSWER_BYTES) for memory in outcome.memories),
    ]
    for place, text, limit in texts:
        check(text, place)
        if len(text) > limit:
            raise NotCanonical(f"{place}: {len(text)} characters, at most {limit}")


def try_probe(tool: Tool, context: ToolContext, args: Arguments) -> ToolOutcome | bool | None:
    """Look once whether a key was executed. A finding that can't be used says nothing: None."""
    keys = Keyring(context.hidden)
    try:
        found = tool.probe(replace(context, secret=keys), args)
        if isinstance(found, ToolOutcome):
            canonical(found.value, max_bytes=ANSWER_BYTES)
            found = keys.answered(found)
            _check_texts(found)
    except Exception as error:  # noqa: BLE001 - whatever breaks a look says nothing of the call
        logger.warning("the probe of %s broke off: %s: %s", tool.key, type(error).__name__, _said(error, keys))
        return None
    return found


@dataclass(frozen=True)
class Asking:
    """What one try of a model call gave, and how long it took. Exactly one of the four holds."""

    turn: ModelTurn | None = None
    body: bytes = b""
    again: str = ""
    unknown: str = ""
    failed: str = ""
    final_as: AttemptOutcome = AttemptOutcome.ERROR_FINAL
    retry_after: float | None = None
    took_ms: int = 0


def try_model(gateway: Gateway, request: ModelRequest) -> Asking:
    """Ask once."""
    started = time.monotonic()
    return replace(_ask(gateway, request), took_ms=_ms_since(started))


def _ask(gateway: Gateway, request: ModelRequest) -> Asking:
    try:
        turn = gateway.ask(request)
        proposals = [{"tool": call.tool, "arguments": call.arguments} for call in turn.proposals]
        body = canonical({"text": turn.text, "proposals": proposals}, max_bytes=ANSWER_BYTES)
        if not all(0 <= tokens <= MAX_INTEGER for tokens in (turn.input_tokens, turn.output_tokens)):
            used = f"{turn.input_tokens} and {turn.output_tokens}"
            raise ModelUnknown(f"The answer says that it used {used} tokens, which can't be.")
        return Asking(turn=turn, body=body)
    except ModelRetryable as error:
        return Asking(again=_said(error), retry_after=error.retry_after)
    except ModelUnknown as error:
        return Asking(unknown=_said(error))
    except ModelFailed as error:
        return Asking(failed=_said(error), final_as=error.outcome)
    except NotCanonical as error:
        return Asking(failed=f"the answer can't be stored: {_said(error)}")
    except Exception as error:  # noqa: BLE001 - a bug of a gateway or a planner ends the run with its reason, not the worker
        return Asking(unknown=f"the gateway broke off: {type(error).__name__}: {_said(error)}")


def _said(error: Exception, keys: Keyring | None = None) -> str:
    """What an error says, as it may be stored to be read: without a secret that the other side gave back (F10 c), and
    with characters that no store takes written out.
    """
    said = str(error)
    return bounded(storable(keys.readable(said) if keys else withheld(said)), REFUSAL_LIMIT)
