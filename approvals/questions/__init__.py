"""What a model asks people, what a form may ask for, and what counts as an answer to it. Pure Python."""

from approvals.questions.form import Form, FormFault, form_of
from approvals.questions.question import Question, question_of

__all__ = ["Form", "FormFault", "Question", "form_of", "question_of"]
