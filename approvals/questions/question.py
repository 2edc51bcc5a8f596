"""A question as the arguments of its call hold it."""

import json
from dataclasses import dataclass

from approvals.questions.form import Form, form_of
from approvals.states import AnswerKind


@dataclass(frozen=True)
class Question:
    """What is asked, why, and how it is answered. `text` and `why` are the model's words: untrusted. `form` is there for FORM."""

    text: str
    why: str
    kind: AnswerKind
    form: Form | None = None


def question_of(args: bytes) -> Question:
    """The question that the canonical arguments of a call ask. Raises FormFault where its form is none that people can be
    shown; every call that was recorded has one.
    """
    said = json.loads(args)
    kind = AnswerKind(said["answer"].upper())
    form = form_of(said["form"]) if kind == AnswerKind.FORM else None
    return Question(said["question"], said["why"], kind, form)
