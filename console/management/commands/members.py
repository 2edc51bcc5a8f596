"""`manage.py members`: tenants, people, their roles and their tokens. For whoever runs the installation."""

import getpass
import os
import secrets
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import MaxLengthValidator, validate_slug

from accounts.errors import Invalid, Refused
from accounts.models import Membership, User
from accounts.services import member_set, tenant_create, tenant_rules_set, token_create, token_revoke
from accounts.states import GROUP, Role
from console.management.noun import Answered, Asked, Noun, Shown, facts, table

HEADS = ("TENANT", "USERNAME", "ROLES", "GROUPS", "ACTIVE")


class NotAMember(Refused):
    """Nothing was done. {username} is not a member of {tenant}."""

    code = "NOT_FOUND"
    status = 404


class NoTenant(Refused):
    """Nothing was done. There is no tenant {tenant}."""

    code = "NOT_FOUND"
    status = 404


class NoToken(Refused):
    """Nothing was revoked. {username} has no live token named {name} in {tenant}."""

    code = "NOT_FOUND"
    status = 404


RULES = ("two_for_verdicts", "self_approval")


def who() -> str:
    """The account of this machine that the command is run with: nobody signs in to the installation's own commands."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have a number and no name
        return str(os.getuid())


def roles(text: str) -> frozenset[Role]:
    """Roles as they are given: names with commas between them."""
    given = [name.strip().lower() for name in text.split(",") if name.strip()]
    unknown = sorted(set(given) - set(Role))
    if unknown or not given:
        raise ArgumentTypeError(
            f"give one or more of {', '.join(Role)}" + (f", not {', '.join(unknown)}" if unknown else "")
        )
    return frozenset(Role(name) for name in given)


def groups(text: str) -> frozenset[str]:
    """Groups as they are given: short names with commas between them, or nothing for none."""
    given = frozenset(name.strip().lower() for name in text.split(",") if name.strip())
    wrong = sorted(name for name in given if not GROUP.fullmatch(name))
    if wrong:
        raise ArgumentTypeError(f"a group is letters, digits, - and _, at most 64 of them, not {', '.join(wrong)}")
    return given


class Command(Noun):
    help = "Members and their tokens. For whoever runs the installation."
    noun: ClassVar[str] = "member"
    by_person: ClassVar[bool] = False

    def add_verbs(self) -> None:
        self.verb("list", self.list, "Every person in every tenant.")
        setting = self.verb("set", self.set, "Make a tenant and a person where needed, and set the person's roles.")
        setting.add_argument("tenant", help="the tenant's short name: letters, digits, - and _")
        setting.add_argument("username")
        setting.add_argument("--roles", type=roles, required=True, help=f"with commas: {', '.join(Role)}")
        setting.add_argument(
            "--groups", type=groups, help='with commas; replaces the person\'s groups, "" takes all away'
        )
        setting.add_argument("--tenant-name", default="", help="the tenant's name, if it is new")
        setting.add_argument(
            "--password-stdin",
            action="store_true",
            help="read the password from stdin; without it a new person gets one that is shown once",
        )
        ruling = self.verb("rules", self.rules, "Set what a tenant wants of its people, or show it.")
        ruling.add_argument("tenant")
        ruling.add_argument(
            "--two-for-verdicts",
            choices=("yes", "no"),
            help="whether two people have to say the same before an unknown outcome counts as known",
        )
        ruling.add_argument(
            "--self-approval",
            choices=("yes", "no"),
            help="whether who started a run, or wrote a call, may decide about it",
        )
        tokens = self.verbs.add_parser("token", help="API tokens of a member").add_subparsers(
            dest="token_verb", required=True
        )
        for name, act, said in (
            ("create", self.token_create, "Make a token. It is shown once."),
            ("revoke", self.token_revoke, "Revoke the tokens of this name."),
        ):
            parser = self.verb(name, act, said, under=tokens)
            parser.add_argument("tenant")
            parser.add_argument("username")
            parser.add_argument("--name", required=True, help="what the token is called")

    def list(self, asked: Asked) -> Shown:
        members = Membership.objects.select_related("tenant", "user").order_by("tenant__slug", "user__username")
        records: Sequence[dict[str, Any]] = [
            {
                "tenant": m.tenant.slug,
                "username": m.user.username,
                "roles": m.roles,
                "groups": m.groups,
                "active": m.user.is_active,
            }
            for m in members
        ]
        rows = [
            (r["tenant"], r["username"], ", ".join(r["roles"]), ", ".join(r["groups"]), r["active"]) for r in records
        ]
        return Shown(records, table(HEADS, rows, "There are no members."))

    def set(self, asked: Asked) -> Shown | Refused:
        username, slug = asked["username"], asked["tenant"]
        _check("tenant", slug, validate_slug, MaxLengthValidator(64))
        _check("tenant-name", asked["tenant_name"], MaxLengthValidator(200))
        _check("username", username, User.username_validator, MaxLengthValidator(150))
        password = _password(asked)
        tenant = tenant_create(slug=slug, name=asked["tenant_name"] or slug, by=who())
        membership = member_set(
            tenant=tenant, username=username, password=password, roles=asked["roles"], groups=asked["groups"], by=who()
        )
        made = None if asked["password_stdin"] else password
        held = {"roles": membership.roles, "groups": membership.groups}
        said = {name: ", ".join(names) for name, names in held.items()}
        named = {"tenant": slug, "username": username}
        return Shown({**named, **held, "password": made}, facts({**named, **said, "password": made}))

    def rules(self, asked: Asked) -> Shown | Refused:
        wanted = {name: asked[name] == "yes" for name in RULES if asked[name]}
        tenant = tenant_rules_set(slug=asked["tenant"], by=who(), **wanted)
        if tenant is None:
            return NoTenant({"tenant": asked["tenant"]})
        record = {"tenant": tenant.slug} | {name: getattr(tenant, name) for name in RULES}
        return Shown(record, facts(record))

    def token_create(self, asked: Asked) -> Shown | Refused:
        token = token_create(membership=_membership(asked), name=asked["name"], by=who())
        record = {"tenant": asked["tenant"], "username": asked["username"], "name": asked["name"], "token": token}
        return Shown(record, facts(record))

    def token_revoke(self, asked: Asked) -> Shown | Refused:
        names = {name: asked[name] for name in ("tenant", "username", "name")}
        revoked = token_revoke(membership=_membership(asked), name=asked["name"], by=who())
        return Shown({**names, "revoked": revoked}, f"Revoked: {revoked}.") if revoked else NoToken(names)


def _password(asked: Asked) -> str | None:
    """The password to set: the line on stdin, one made for a new person, or none for a person who has one."""
    user = User.objects.filter(username=asked["username"]).first()
    if not asked["password_stdin"]:
        return None if user else secrets.token_urlsafe(15)
    password = sys.stdin.readline().rstrip("\r\n")
    person = user or User(username=asked["username"])
    _check("password", password, lambda given: validate_password(given, person))
    return password


def _check(field: str, given: str, *validators: Callable[[str], object]) -> None:
    """Raises Answered with the reasons of the first of Django's validators that does not agree."""
    try:
        for validate in validators:
            validate(given)
    except ValidationError as error:
        raise Answered(Invalid({"field": field, "reason": " ".join(error.messages)})) from error


def _membership(asked: Asked) -> Membership:
    found = Membership.objects.filter(tenant__slug=asked["tenant"], user__username=asked["username"]).first()
    if found is None:
        raise Answered(NotAMember({"username": asked["username"], "tenant": asked["tenant"]}))
    return found
