"""What people said about a wait, and the one decision that comes of it."""

from typing import ClassVar

import pgtrigger
from django.db import models
from django.db.models import Q

from accounts.keys import new_id
from accounts.models import ClockTimestamp, append_only, no_delete, no_truncate, one_of, starts_without
from approvals.models.wait import Wait
from approvals.states import AnswerKind, DecisionVerdict


class Vote(models.Model):
    """What one person said about one wait, with exactly what they were shown. Stays as evidence, withdrawn or not.

    `voice` is the person whose authority it has: their own, or that of whoever has them decide meanwhile. Four eyes are two
    people and two voices.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    wait = models.ForeignKey(Wait, on_delete=models.PROTECT, related_name="votes")
    actor = models.CharField(max_length=200)
    voice = models.CharField(max_length=200)
    verdict = models.CharField(max_length=8)
    seen_revision = models.IntegerField()
    seen_digest = models.CharField(max_length=64)
    seen_args_digest = models.CharField(max_length=64)
    reason = models.TextField()
    at = models.DateTimeField(db_default=ClockTimestamp())
    withdrawn_at = models.DateTimeField(null=True)
    withdrawal_reason = models.TextField(db_default="")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["wait", "actor"], condition=Q(withdrawn_at=None), name="one_vote_per_person"
            ),
            models.UniqueConstraint(
                fields=["wait", "voice"], condition=Q(withdrawn_at=None), name="one_vote_per_voice"
            ),
            one_of("verdict", list(DecisionVerdict), "vote_verdict_known"),
            models.CheckConstraint(condition=~Q(reason="") | Q(verdict=DecisionVerdict.ANSWER), name="vote_has_reason"),
            models.CheckConstraint(
                condition=Q(withdrawn_at=None, withdrawal_reason="")
                | Q(withdrawn_at__isnull=False) & ~Q(withdrawal_reason=""),
                name="vote_withdrawn_with_reason",
            ),
        ]
        triggers: ClassVar = [
            starts_without("NEW.withdrawn_at IS NOT NULL"),
            pgtrigger.ReadOnly(
                name="vote_frozen",
                fields=[
                    *("id", "wait", "actor", "voice", "verdict", "reason", "at"),
                    *("seen_revision", "seen_digest", "seen_args_digest"),
                ],
            ),
            pgtrigger.Protect(
                name="withdrawn_once",
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition("OLD.withdrawn_at IS NOT NULL"),
            ),
            # The row of the wait is locked, so that no decision can count a vote that goes at the same instant.
            pgtrigger.Trigger(
                name="while_open",
                when=pgtrigger.Before,
                operation=pgtrigger.Insert | pgtrigger.Update,
                func="""
                    PERFORM FROM approvals_wait w WHERE w.id = NEW.wait_id AND w.status = 'OPEN' FOR NO KEY UPDATE;
                    IF NOT FOUND THEN
                        RAISE EXCEPTION 'a vote is given and withdrawn only while its wait is open'
                            USING ERRCODE = 'check_violation';
                    END IF;
                    RETURN NEW;
                """,
            ),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.verdict}"


class Decision(models.Model):
    """The one decision of a wait. What was seen is what was bound (composite foreign key)."""

    wait = models.OneToOneField(Wait, primary_key=True, on_delete=models.PROTECT, related_name="decision")
    verdict = models.CharField(max_length=8)
    seen_revision = models.IntegerField()
    seen_digest = models.CharField(max_length=64)
    seen_args_digest = models.CharField(max_length=64)
    reason = models.TextField()
    actor = models.CharField(max_length=200)
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            one_of("verdict", list(DecisionVerdict), "decision_verdict_known"),
            models.CheckConstraint(
                condition=~Q(reason="") | Q(verdict=DecisionVerdict.ANSWER), name="decision_has_reason"
            ),
            models.CheckConstraint(
                condition=Q(verdict=DecisionVerdict.REJECT) | Q(actor__startswith="person:"), name="people_approve"
            ),
        ]
        triggers: ClassVar = [
            append_only(),
            pgtrigger.Trigger(
                name="by_enough_votes",
                when=pgtrigger.Before,
                operation=pgtrigger.Insert,
                condition=pgtrigger.Condition("NEW.actor LIKE 'person:%'"),
                declare=[("asked", "record")],
                func="""
                    SELECT w.kind, w.quorum INTO asked FROM approvals_wait w WHERE w.id = NEW.wait_id;
                    IF (asked.kind = 'QUESTION') <> (NEW.verdict IN ('ANSWER', 'DECLINE')) THEN
                        RAISE EXCEPTION 'a call is decided, and a question is answered' USING ERRCODE = 'check_violation';
                    END IF;
                    IF (SELECT count(*) FROM approvals_vote v
                        WHERE v.wait_id = NEW.wait_id AND v.verdict = NEW.verdict AND v.withdrawn_at IS NULL)
                       < (CASE NEW.verdict WHEN 'APPROVE' THEN asked.quorum ELSE 1 END) THEN
                        RAISE EXCEPTION 'a decision needs the votes that its wait asks for'
                            USING ERRCODE = 'check_violation';
                    END IF;
                    RETURN NEW;
                """,
            ),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.verdict} by {self.actor}"


class Answer(models.Model):
    """What a person has answered to a question: canonical JSON, encrypted, by its digest. A file's bytes are kept with the
    run's artifacts, by `file_sha256`.
    """

    wait = models.OneToOneField(Wait, primary_key=True, on_delete=models.PROTECT, related_name="answer")
    kind = models.CharField(max_length=8)
    digest = models.CharField(max_length=64)
    size = models.IntegerField()
    body = models.BinaryField()
    data_key_id = models.UUIDField()
    file_sha256 = models.CharField(max_length=64, null=True)
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            one_of("kind", list(AnswerKind), "answer_kind_known"),
            models.CheckConstraint(
                condition=Q(kind=AnswerKind.FILE, file_sha256__isnull=False)
                | (~Q(kind=AnswerKind.FILE) & Q(file_sha256=None)),
                name="answer_file_is_named",
            ),
        ]
        triggers: ClassVar = [
            append_only(),
            pgtrigger.Trigger(
                name="to_an_open_question",
                when=pgtrigger.Before,
                operation=pgtrigger.Insert,
                func="""
                    PERFORM FROM approvals_wait w WHERE w.id = NEW.wait_id AND w.status = 'OPEN' AND w.kind = 'QUESTION'
                    FOR NO KEY UPDATE;
                    IF NOT FOUND THEN
                        RAISE EXCEPTION 'only an open question is answered' USING ERRCODE = 'check_violation';
                    END IF;
                    RETURN NEW;
                """,
            ),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.kind} answer"
