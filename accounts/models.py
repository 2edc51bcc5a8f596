"""Tenants, people, their roles and tokens, the audit chain and the data keys."""

from collections.abc import Iterable
from typing import ClassVar

import pgtrigger
from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Func, Q
from django.db.models.expressions import RawSQL

from accounts.keys import new_id
from accounts.states import HEARD, NOTICE_MOVES, EndpointKind, NoticeKind, NoticeStatus, Role, Subject

ROLE_NAMES = [role.value for role in Role]


class ClockTimestamp(Func):
    """The database's clock at this very moment; `now()` would stand still inside a transaction."""

    function = "clock_timestamp"
    template = "%(function)s()"
    output_field = models.DateTimeField()


def append_only(name: str = "append_only") -> pgtrigger.Protect:
    """The trigger of a table whose rows are never changed and never deleted."""
    return pgtrigger.Protect(name=name, operation=pgtrigger.Update | pgtrigger.Delete)


def no_delete() -> pgtrigger.Protect:
    """The trigger of a table whose rows are never deleted."""
    return pgtrigger.Protect(name="no_delete", operation=pgtrigger.Delete)


def kept_while(condition: str) -> pgtrigger.Protect:
    """The trigger of a table whose rows are deleted by retention only: never while an SQL condition on OLD holds."""
    return pgtrigger.Protect(name="no_delete", operation=pgtrigger.Delete, condition=pgtrigger.Condition(condition))


def no_truncate() -> pgtrigger.Trigger:
    """The trigger of a table that is never emptied; deletes of single rows are another guard's."""
    return pgtrigger.Trigger(
        name="no_truncate",
        level=pgtrigger.Statement,
        when=pgtrigger.Before,
        operation=pgtrigger.Truncate,
        func="RAISE EXCEPTION '% is never emptied', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';",
    )


def starts_as(*states: str) -> pgtrigger.Trigger:
    """The trigger that refuses a new row whose status is none of these."""
    return starts_without(f"NEW.status NOT IN ({', '.join(repr(str(state)) for state in states)})")


def starts_without(condition: str) -> pgtrigger.Trigger:
    """The trigger that refuses a new row for which an SQL condition on NEW holds. It looks nothing up."""
    return pgtrigger.Trigger(
        name="first_state",
        when=pgtrigger.Before,
        operation=pgtrigger.Insert,
        condition=pgtrigger.Condition(condition),
        func="RAISE EXCEPTION 'a new row of % is not in a first state', TG_TABLE_NAME USING ERRCODE = 'check_violation';",
    )


class Moves(pgtrigger.FSM):
    """The trigger of the legal moves of a table that a step writes. It looks at what was written: a trigger that looks
    before has the database lock the row once more, which is a record of the log for each move.
    """

    when = pgtrigger.After


class Frozen(pgtrigger.ReadOnly):
    """The trigger of columns that never change, on a table that a step writes. Its `operation` names them: it compares them
    all, and so it is asked only of a statement that sets one. It looks at what was written, as Moves does.
    """

    when = pgtrigger.After

    def get_func(self, model: models.Model) -> str:
        """What it says is what the other guards of frozen columns say."""
        return "RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;"


def one_of(field: str, values: list[str], name: str) -> models.CheckConstraint:
    """A check that a text column holds one of the given values."""
    return models.CheckConstraint(condition=Q(**{f"{field}__in": values}), name=name)


def rule(name: str, holds: str) -> models.CheckConstraint:
    """A check of a table that a step writes, in SQL and in few words. The server parses and plans the checks of a table anew
    for each statement that writes to it, so what one costs goes by its length.
    """
    return models.CheckConstraint(condition=_sql(holds), name=name)


def whether(holds: str) -> models.GeneratedField:
    """A stored column that says whether this holds of the row, in SQL and in few words, for the same reason."""
    return models.GeneratedField(expression=_sql(holds), output_field=models.BooleanField(), db_persist=True)


def _sql(holds: str) -> RawSQL:
    return RawSQL(holds, (), output_field=models.BooleanField())  # noqa: S611  the texts are constants of the models


def among(column: str, values: Iterable[str]) -> str:
    """The SQL that says that a text column holds one of these values, or null: one constant, where IN takes one a value."""
    return f"{column} = ANY ('{{{','.join(values)}}}')"


class User(AbstractUser):
    """A person who can sign in. What they may do comes from their memberships only."""

    # When they went through the tour or said that they need none. Until then the overview offers it.
    tour_seen_at = models.DateTimeField(null=True)


class Tenant(models.Model):
    """An organisation. Nothing is shared between tenants."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=200)
    self_approval = models.BooleanField(db_default=True)
    # Whether two people have to say the same before the outcome of a call with an effect counts as known.
    two_for_verdicts = models.BooleanField(db_default=False)
    created_at = models.DateTimeField(db_default=ClockTimestamp())

    def __str__(self) -> str:
        return self.slug


class Membership(models.Model):
    """A person in a tenant, with a set of roles. Groups are names that policies ask for; they permit nothing by themselves."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="memberships")
    roles = ArrayField(models.CharField(max_length=16))
    groups = ArrayField(models.CharField(max_length=64), db_default=[])
    created_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "user"], name="one_membership_per_tenant"),
            models.UniqueConstraint(fields=["tenant", "id"], name="membership_in_tenant"),
            models.CheckConstraint(condition=Q(roles__contained_by=ROLE_NAMES), name="membership_roles_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} in {self.tenant_id}"


class PasswordTry(models.Model):
    """How often a password was tried in vain, by what is counted. It says nothing of anybody, and goes a day after the last try.

    Not a fact of anything: its rows are changed and deleted.
    """

    key = models.CharField(primary_key=True, max_length=64)  # an HMAC
    wrong = models.IntegerField()
    last_at = models.DateTimeField(db_index=True)
    next_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(condition=Q(wrong__gte=0), name="tries_not_negative")]

    def __str__(self) -> str:
        return f"{self.wrong} wrong"


class ApiToken(models.Model):
    """A bearer token of one membership. Only its SHA-256 is stored."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    membership = models.ForeignKey(Membership, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(db_default=ClockTimestamp())
    revoked_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name


class DataKey(models.Model):
    """The key that a tenant's bodies are encrypted with, itself wrapped by the master key."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="data_keys")
    wrapped = models.BinaryField()
    created_at = models.DateTimeField(db_default=ClockTimestamp())
    retired_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant"], condition=Q(retired_at=None), name="one_current_data_key_per_tenant"
            ),
            models.UniqueConstraint(fields=["tenant", "id"], name="data_key_in_tenant"),
        ]
        triggers: ClassVar = [no_delete(), no_truncate()]

    def __str__(self) -> str:
        return str(self.id)


class AuditHead(models.Model):
    """The end of a tenant's audit chain. Locked last in every transaction (ruling 37)."""

    tenant = models.OneToOneField(Tenant, primary_key=True, on_delete=models.PROTECT)
    seq = models.BigIntegerField(db_default=0)
    hash = models.CharField(max_length=64, db_default="0" * 64)

    class Meta:
        triggers: ClassVar = [no_delete(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.tenant_id} at {self.seq}"


class AuditEvent(models.Model):
    """One human or control act, or one refused act, chained to the one before. Holds ids and digests, never bodies."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    seq = models.BigIntegerField()
    actor = models.CharField(max_length=200)
    action = models.CharField(max_length=64)
    object_type = models.CharField(max_length=32)
    object_id = models.CharField(max_length=64)
    detail = models.JSONField()
    canonical = models.BinaryField()
    at = models.DateTimeField()
    prev_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["tenant", "seq"], name="audit_seq_once")]
        indexes: ClassVar = [models.Index(fields=["tenant", "object_type", "object_id"], name="audit_by_object")]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.action} {self.object_id}"


class AuditReason(models.Model):
    """Why a person did what an event tells of, in their own words, where the act has no row of its own that says so.

    The event holds only the digest: words are no part of the chain (T24).
    """

    event = models.OneToOneField(AuditEvent, primary_key=True, on_delete=models.PROTECT, related_name="why")
    reason = models.TextField()

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(condition=~Q(reason=""), name="audit_reason_said")]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return self.reason


class SentForm(models.Model):
    """A form that was sent: by its key, which its page made up, and when. Kept for a day, so that a form that is sent twice acts once."""

    key = models.UUIDField(primary_key=True)
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        indexes: ClassVar = [models.Index(fields=["at"], name="sent_forms_by_age")]

    def __str__(self) -> str:
        return str(self.key)


class SavedView(models.Model):
    """A list as somebody looks at it: its filters, order and columns under a name. Their own, or shared in the tenant."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, db_index=False)
    membership = models.ForeignKey(Membership, on_delete=models.PROTECT, related_name="views")
    listed = models.CharField(max_length=32)
    name = models.CharField(max_length=100)
    query = models.CharField(max_length=2000)
    shared = models.BooleanField(db_default=False)
    created_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["membership", "listed", "name"], name="view_name_once"),
            models.CheckConstraint(condition=~Q(name="") & ~Q(listed=""), name="view_is_named"),
        ]
        indexes: ClassVar = [models.Index(fields=["tenant", "listed", "name"], name="views_of_list")]
        triggers: ClassVar = [
            pgtrigger.ReadOnly(name="view_frozen", fields=["id", "tenant", "membership", "listed"]),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.listed}: {self.name}"


class Endpoint(models.Model):
    """Where somebody hears of things outside the pages: a person's, or the whole tenant's where `membership` is null.

    The address is a secret, and so is what a webhook is signed with: sealed with the tenant's data key and never shown
    again. `shown` names the address for people. One that is paused is told nothing, and not later either.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    membership = models.ForeignKey(Membership, null=True, on_delete=models.PROTECT, related_name="endpoints")
    kind = models.CharField(max_length=16)
    name = models.CharField(max_length=100)
    shown = models.CharField(max_length=300)
    address = models.BinaryField()
    secret = models.BinaryField(null=True)
    data_key = models.ForeignKey(DataKey, on_delete=models.PROTECT)
    hears = ArrayField(models.CharField(max_length=16))
    digest = models.BooleanField(db_default=False)
    version = models.PositiveIntegerField(db_default=1)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(db_default=ClockTimestamp())
    paused_at = models.DateTimeField(null=True)
    removed_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            one_of("kind", list(EndpointKind), "endpoint_kind_known"),
            models.CheckConstraint(
                condition=Q(hears__contained_by=[kind.value for kind in HEARD]) & Q(hears__len__gte=1),
                name="endpoint_hears_known",
            ),
            models.CheckConstraint(condition=Q(digest=False) | Q(kind=EndpointKind.MAIL), name="digest_by_mail"),
            models.CheckConstraint(condition=Q(secret=None) | Q(kind=EndpointKind.WEBHOOK), name="secret_of_a_webhook"),
        ]
        indexes: ClassVar = [models.Index(fields=["tenant"], condition=Q(removed_at=None), name="endpoint_live")]
        triggers: ClassVar = [
            pgtrigger.ReadOnly(name="endpoint_frozen", fields=["id", "tenant", "membership", "kind", "created_by"]),
            kept_while("OLD.removed_at IS NULL OR OLD.removed_at > now() - interval '1 day'"),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Notice(models.Model):
    """One row of the outbox: what one endpoint is to be told, written with the fact, once per dedupe key."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="notices")
    kind = models.CharField(max_length=16)
    dedupe_key = models.CharField(max_length=200)
    subject = models.CharField(max_length=16)
    subject_id = models.UUIDField()
    facts = models.JSONField()
    gathered = models.BooleanField()
    status = models.CharField(max_length=8, db_default=NoticeStatus.PENDING)
    attempts = models.SmallIntegerField(db_default=0)
    due_at = models.DateTimeField()
    error = models.CharField(max_length=500, db_default="")
    created_at = models.DateTimeField(db_default=ClockTimestamp())
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["endpoint", "dedupe_key"], name="notice_once"),
            one_of("kind", list(NoticeKind), "notice_kind_known"),
            one_of("status", list(NoticeStatus), "notice_status_known"),
            one_of("subject", list(Subject), "notice_subject_known"),
        ]
        indexes: ClassVar = [models.Index(fields=["due_at"], condition=Q(status="PENDING"), name="notice_due")]
        triggers: ClassVar = [
            pgtrigger.FSM(name="legal_moves", field="status", transitions=NOTICE_MOVES),
            starts_as(NoticeStatus.PENDING),
            kept_while("OLD.closed_at IS NULL OR OLD.closed_at > now() - interval '1 day'"),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.status}"
