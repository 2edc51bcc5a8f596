"""Saved views of lists: a person's own, or shared in the tenant."""

from uuid import UUID

from django.db import IntegrityError, transaction

from accounts.audit import audit_append, audit_refused
from accounts.errors import Invalid, NotAllowed, Refused, TooManyViews, ViewNameTaken
from accounts.models import SavedView
from accounts.selectors import access_view, membership_of
from accounts.states import Actor, Permission

MOST_VIEWS = 50
NAME_LIMIT = 100
QUERY_LIMIT = 2000


def view_save(*, actor: Actor, listed: str, name: str, query: str, shared: bool) -> SavedView | Refused:
    """Keep a list as the person looks at it: `query` is its address, `listed` the key of the list, which the caller has checked.

    Needs the permission to read; who looks at it later sees what they may see themselves.
    """
    name = name.strip()
    refused = _unfit(actor, listed, name, query)
    if refused is None:
        try:
            return _save(actor, listed, name, query, shared)
        except IntegrityError:
            refused = ViewNameTaken({"name": name})
    audit_refused(actor=actor, action="view.save", object_type="tenant", object_id=actor.tenant_id, refused=refused)
    return refused


def _unfit(actor: Actor, listed: str, name: str, query: str) -> Refused | None:
    if not actor.may(Permission.READ):
        return NotAllowed({"permission": str(Permission.READ), "actor": actor.name})
    if not name or len(name) > NAME_LIMIT or not name.isprintable():
        return Invalid({"field": "name", "reason": f"a name of at most {NAME_LIMIT} characters that can be seen."})
    if len(query) > QUERY_LIMIT or not query.isascii():
        return Invalid({"field": "query", "reason": f"an address of at most {QUERY_LIMIT} characters."})
    if SavedView.objects.filter(membership=membership_of(actor), listed=listed).count() >= MOST_VIEWS:
        return TooManyViews({"most": MOST_VIEWS})
    return None


@transaction.atomic
def _save(actor: Actor, listed: str, name: str, query: str, shared: bool) -> SavedView:
    view = SavedView.objects.create(
        tenant_id=actor.tenant_id,
        membership=membership_of(actor),
        listed=listed,
        name=name,
        query=query,
        shared=shared,
    )
    _audit(actor, "view.save", view)
    return view


def view_remove(*, actor: Actor, id: UUID, name: str) -> Refused | None:
    """Remove a view: one's own, or with the permission to govern a shared one of somebody else. `name` is what it was called where
    the person saw it. Raises NotFound.
    """
    view = access_view(actor=actor, id=id)
    refused: Refused | None = None
    if view.membership.user.username != actor.name and not actor.may(Permission.GOVERN):
        refused = NotAllowed({"permission": str(Permission.GOVERN), "actor": actor.name})
    elif name != view.name:
        refused = Invalid({"field": "name", "reason": "it is not what this view is called."})
    if refused is not None:
        audit_refused(actor=actor, action="view.remove", object_type="view", object_id=id, refused=refused)
        return refused
    with transaction.atomic():
        gone, _ = SavedView.objects.filter(id=id).delete()
        if gone:
            _audit(actor, "view.remove", view)
    return None


def _audit(actor: Actor, action: str, view: SavedView) -> None:
    detail = {"listed": view.listed, "shared": view.shared}
    audit_append(actor=actor, action=action, object_type="view", object_id=view.id, detail=detail)
