"""Answers to questions. `question_answer` is the one function behind every door."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from unicodedata import category
from uuid import UUID

from django.db import transaction

from accounts.audit import audit_append, audit_refused
from accounts.errors import Refused
from accounts.selectors import current_data_key, sealed_body
from accounts.states import Actor
from approvals.errors import InvalidAnswer
from approvals.models import Answer, Wait
from approvals.questions import Question, question_of
from approvals.services.checks import Locked, Seen, voice_to_decide, wait_locked
from approvals.services.decide import close_by, run_asked, said_of
from approvals.states import AnswerKind, DecisionVerdict
from checkpoints.envelope import secret_in, unfit_text
from receipts.selectors import call_arguments
from runs.canonical import NotCanonical, canonical, check, digest
from runs.faults import reach
from runs.live import hint_changed
from runs.services import artifact_store, run_lock

TEXT_LIMIT = 10_000
FORM_BYTES = 100_000
FILE_BYTES = 1024 * 1024
FILE_NAME_LIMIT = 200


@dataclass(frozen=True)
class TextGiven:
    """An answer in free words."""

    text: str


@dataclass(frozen=True)
class FormGiven:
    """The fields of a form that were answered, by name. A field that was left out is not filled in by its default."""

    fields: Mapping[str, Any]


@dataclass(frozen=True)
class FileGiven:
    """A file as the answer."""

    filename: str
    data: bytes


@dataclass(frozen=True)
class Declined:
    """No answer, and why."""

    reason: str


Given = TextGiven | FormGiven | FileGiven | Declined


@dataclass(frozen=True)
class QuestionAnswered:
    """What was said is stored. `digest` is that of the answer; empty where the person declined."""

    wait_id: UUID
    verdict: str
    by: str
    digest: str


@dataclass(frozen=True)
class _Body:
    """An answer that can be stored: its value as the model is told it, and a file's bytes."""

    kind: AnswerKind
    value: Any
    file: bytes | None = None


def question_answer(*, actor: Actor, wait_id: UUID, seen: Seen, given: Given) -> QuestionAnswered | Refused:
    """Answer an open question, or decline to. Page, API and command line come here. The first one who does closes it.

    Guarded under the run's and the wait's locks, as a decision is: the question is open and in time, what was seen is what is
    bound, this person is asked. An answer has to fit what was asked; it is the person's word and allows nothing. Answer,
    decision, wait, wakeup, queued run and audit row commit together. A refusal changes nothing and is audited. Raises NotFound.
    """
    run_id = run_asked(actor, wait_id)
    with transaction.atomic():
        outcome = _answer(actor, run_id, wait_id, seen, given)
    action = "wait.decline" if isinstance(given, Declined) else "wait.answer"
    if isinstance(outcome, Refused):
        audit_refused(actor=actor, action=action, object_type="wait", object_id=wait_id, refused=outcome)
    else:
        reach("after_decision_committed", outcome.verdict)
    return outcome


def _answer(actor: Actor, run_id: UUID, wait_id: UUID, seen: Seen, given: Given) -> QuestionAnswered | Refused:
    locked = wait_locked(run_lock(run_id), wait_id)
    declined = isinstance(given, Declined)
    verdict = DecisionVerdict.DECLINE if declined else DecisionVerdict.ANSWER
    reason = given.reason.strip() if isinstance(given, Declined) else ""
    voice = voice_to_decide(actor, locked, verdict, seen, reason)
    if isinstance(voice, Refused):
        return voice
    sha256 = ""
    if not isinstance(given, Declined):
        body = _body_of(question_of(call_arguments(locked.wait.tool_call)), given)
        if isinstance(body, InvalidAnswer):
            return body
        sha256 = _store(locked.wait, body)
    shown = said_of(locked.wait, actor, voice, verdict, seen, reason)
    close_by(locked, actor, shown)
    hint_changed(tenant_id=locked.wait.tenant_id, run_id=run_id)
    _audit(actor, locked, shown, sha256)
    reach("inside_decide_tx", str(verdict))
    return QuestionAnswered(wait_id, str(verdict), actor.label, sha256)


def _store(wait: Wait, body: _Body) -> str:
    """Store an answer. Returns its digest."""
    plain = canonical(body.value)
    key_id = current_data_key(wait.tenant_id)
    kept = None
    if body.file is not None:
        kept = artifact_store(tenant_id=wait.tenant_id, data=body.file, media_type="application/octet-stream")
    Answer.objects.create(
        wait=wait,
        kind=body.kind,
        digest=digest(plain),
        size=len(plain),
        body=sealed_body(key_id=key_id, plain=plain),
        data_key_id=key_id,
        file_sha256=kept,
    )
    return digest(plain)


# ── what may be answered ─────────────────────────────────────────────────────


def _body_of(question: Question, given: TextGiven | FormGiven | FileGiven) -> _Body | InvalidAnswer:
    """The answer as it is stored, or which fields can't be taken and why."""
    wanted = {AnswerKind.TEXT: TextGiven, AnswerKind.FORM: FormGiven, AnswerKind.FILE: FileGiven}[question.kind]
    if not isinstance(given, wanted):
        return _invalid({"answer": f"this question is answered by {_BY[question.kind]}"})
    if isinstance(given, TextGiven):
        return _text_body(given.text)
    return _form_body(question, given) if isinstance(given, FormGiven) else _file_body(given)


_BY = {AnswerKind.TEXT: "free words", AnswerKind.FORM: "the fields of its form", AnswerKind.FILE: "a file"}


def _text_body(text: str) -> _Body | InvalidAnswer:
    fault = "write an answer." if not text.strip() else _text_fault(text, TEXT_LIMIT)
    return _invalid({"text": fault}) if fault else _Body(AnswerKind.TEXT, text)


def _form_body(question: Question, given: FormGiven) -> _Body | InvalidAnswer:
    try:
        plain = canonical(dict(given.fields), max_bytes=FORM_BYTES)
    except NotCanonical as error:
        return _invalid({"fields": str(error)})
    faults = {one.field: one.why for one in question.form.faults(given.fields)} if question.form else {}
    for name, value in given.fields.items():
        found = secret_in(value) if isinstance(value, str) else None
        if found:
            faults.setdefault(name, f"it looks like a {found}; write it without")
    return _invalid(faults) if faults else _Body(AnswerKind.FORM, given.fields if plain else {})


def _file_body(given: FileGiven) -> _Body | InvalidAnswer:
    name = given.filename
    fault = unfit_text(name, FILE_NAME_LIMIT, needed=True) if name else "it has no name"
    if any(category(character) == "Cc" for character in name):
        fault = "its name holds a control character"
    if not given.data:
        fault = "choose a file that is not empty"
    if len(given.data) > FILE_BYTES:
        fault = f"it has {len(given.data)} bytes; at most {FILE_BYTES} are taken"
    if fault:
        return _invalid({"file": fault})
    value = {"filename": name, "sha256": digest(given.data), "size": len(given.data)}
    return _Body(AnswerKind.FILE, value, given.data)


def _text_fault(text: str, limit: int) -> str:
    """Why a text can't be stored as somebody's answer; empty where it can."""
    if len(text) > limit:
        return f"at most {limit} characters"
    try:
        check(text)
    except NotCanonical as error:
        return str(error)
    found = secret_in(text)
    return f"it looks like a {found}; write it without" if found else ""


def _invalid(faults: Mapping[str, str]) -> InvalidAnswer:
    said = "; ".join(f"{field}: {why.rstrip('.')}" for field, why in faults.items())
    return InvalidAnswer({"field": next(iter(faults)), "said": f"{said}.", "fields": dict(faults)})


def _audit(actor: Actor, locked: Locked, shown: dict[str, Any], sha256: str) -> None:
    wait, run = locked.wait, locked.run
    declined = shown["verdict"] == DecisionVerdict.DECLINE
    stood_in = {} if shown["voice"] == actor.label else {"in_place_of": shown["voice"]}
    audit_append(
        actor=actor,
        action="wait.decline" if declined else "wait.answer",
        object_type="wait",
        object_id=wait.id,
        detail={
            "run": str(run.id),
            "call": str(wait.tool_call_id),
            "revision": wait.checkpoint_revision,
            "digest": wait.checkpoint_digest,
            "args_digest": wait.args_digest,
            **({"reason_digest": digest(shown["reason"].encode())} if declined else {"answer_digest": sha256}),
            "started_by_same_person": run.created_by == actor.label,
            **stood_in,
        },
    )
