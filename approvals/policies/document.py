"""A policy as a person writes it: TOML with ordered rules. Reading one gives the rules, or every fault with its place.

Pure Python. The text is kept as it was written, with its comments; what it means is read from it each time.
"""

import re
import tomllib
from dataclasses import dataclass, field
from datetime import time
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal
from unicodedata import category
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from accounts.states import GROUP, Role
from approvals.policies.expression import NotAnExpression, compiled
from approvals.policies.masking import Mark, mark_at
from approvals.policies.ruling import Demand
from approvals.states import OnDeadline, PolicyOutcome, Risk
from receipts.states import EffectClass

TEXT_LIMIT = 64 * 1024
LINE_LIMIT = 2000  # characters: reading a key takes time with the square of its parts
RULES_LIMIT = 100
QUORUM_LIMIT = 10
LONGEST_SECONDS = 30 * 24 * 3600
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
OUTCOMES = {
    "allow": PolicyOutcome.ALLOW,
    "deny": PolicyOutcome.DENY,
    "ask": PolicyOutcome.REQUIRE_APPROVAL,
}


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a policy, and where: the number of the rule (from 1), its field, and the line (from 1)."""

    said: str
    rule: int | None = None
    field: str = ""
    line: int | None = None

    @property
    def place(self) -> str:
        """Where it is, in words."""
        parts = [f"rule {self.rule}" if self.rule else "", self.field, f"line {self.line}" if self.line else ""]
        return ", ".join(part for part in parts if part)


def _seconds(given: Any) -> Any:
    """A time as it is written: 30s, 10m, 4h or 2d."""
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", given) if isinstance(given, str) else None
    if found is None:
        raise ValueError('write a time as "30s", "10m", "4h" or "2d"')
    seconds = int(found[1]) * _UNITS[found[2]]
    if not 0 < seconds <= LONGEST_SECONDS:
        raise ValueError("from one second to 30 days")
    return seconds


def _amount(given: Any) -> Any:
    """An amount, exact: a whole number, or text. A float is not what was written."""
    if type(given) not in (int, str):
        raise ValueError('write an amount as a whole number, or in quotes: "99.50"')
    try:
        amount = Decimal(given)
    except InvalidOperation as error:
        raise ValueError('write an amount as a whole number, or in quotes: "99.50"') from error
    if not amount.is_finite():
        raise ValueError("it is not a number")
    return amount


def _seen(given: str) -> str:
    """Text in which every character is seen, and so can be stored and shown."""
    hidden = next((char for char in given if category(char)[0] == "C" or category(char) in ("Zl", "Zp")), None)
    if hidden is not None:
        raise ValueError(f"it holds U+{ord(hidden):04X}, which nobody sees")
    return given


def _key(given: str) -> str:
    """The key of a tool or an agent, or a pattern of them. Keys are plain ASCII, so what looks like one is that one."""
    odd = next((char for char in given if not "!" <= char <= "~"), None)
    if odd is not None:
        raise ValueError(f"it holds U+{ord(odd):04X}, and no tool or agent has that in its name")
    return given


def _addressee(given: Any) -> Any:
    """A group or a role of people."""
    kind, _, name = given.partition(":") if isinstance(given, str) else ("", "", "")
    if given and not ((kind == "group" and GROUP.fullmatch(name)) or (kind == "role" and name in set(Role))):
        raise ValueError('write "group:NAME" or "role:NAME"')
    return given


Addressee = Annotated[str, BeforeValidator(_addressee)]
Seconds = Annotated[int, BeforeValidator(_seconds)]
Seen = Annotated[str, Field(min_length=1), AfterValidator(_seen)]
Keys = tuple[Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_key)], ...]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Hours(_Part):
    """From one time of the day to another, over midnight where the second is earlier, on these days, in this zone."""

    start: time = Field(alias="from")
    to: time
    zone: str = "UTC"
    days: tuple[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"], ...] = DAYS  # type: ignore[assignment]

    @field_validator("start", "to", mode="before")
    @classmethod
    def _clock(cls, given: Any) -> Any:
        if not isinstance(given, str) or not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", given):
            raise ValueError('write a time of the day as "18:00"')
        return time.fromisoformat(given)

    @field_validator("zone")
    @classmethod
    def _known(cls, given: str) -> str:
        try:
            ZoneInfo(given)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(f"there is no time zone {given!r}") from error
        return given

    @model_validator(mode="after")
    def _some(self) -> "Hours":
        if self.start == self.to or not self.days:
            raise ValueError("from and to are the same, or there is no day: it would never hold")
        return self


class Rule(_Part):
    """One rule: which calls it is about, what it says of them, and what it asks of the people who decide."""

    name: Annotated[Seen, Field(max_length=120)]
    then: Literal["allow", "deny", "ask"]

    tools: Keys = ()
    effects: tuple[EffectClass, ...] = ()
    agents: Keys = ()
    environments: tuple[Annotated[Seen, Field(max_length=100)], ...] = ()
    hours: Hours | None = None
    amount_over: Annotated[Decimal | None, BeforeValidator(_amount)] = None
    condition: str = Field(default="", alias="if")

    people: int = Field(default=1, ge=1, le=QUORUM_LIMIT, strict=True)
    role: Role = Role.APPROVER
    group: str = ""
    starter_may_decide: bool = Field(default=True, strict=True)
    dwell: Seconds | None = None
    step_up: bool = Field(default=False, strict=True)
    risk: Literal["low", "normal", "high"] = "normal"
    batch: bool = Field(default=False, strict=True)
    deadline: Seconds | None = None
    on_deadline: Literal["expire", "reject"] = "expire"
    validity: Seconds | None = None
    remind: Seconds | None = None
    escalate: Seconds | None = None
    escalate_to: Addressee = ""
    grants: bool = Field(default=True, strict=True)
    verdict_people: int = Field(default=1, ge=1, le=2, strict=True)

    @field_validator("condition")
    @classmethod
    def _expression(cls, given: str) -> str:
        if given:
            try:
                compiled(given)
            except NotAnExpression as error:
                raise ValueError(str(error)) from error
        return given

    @field_validator("group")
    @classmethod
    def _group(cls, given: str) -> str:
        if given and not GROUP.fullmatch(given):
            raise ValueError("a group is small letters, digits, - and _, at most 64 of them")
        return given

    @model_validator(mode="after")
    def _sound(self) -> "Rule":
        for why, wrong in self._contradictions().items():
            if wrong:
                raise ValueError(why)
        return self

    def _contradictions(self) -> dict[str, bool]:
        asked = self.model_fields_set & _ASKING
        longest = self.deadline or LONGEST_SECONDS
        return {
            f'{", ".join(sorted(asked))}: only a rule that asks people can say this (then = "ask")': bool(asked)
            and self.then != "ask",
            'batch: only calls of low risk that one person decides may be approved together (risk = "low")': self.batch
            and (self.risk != "low" or self.people != 1 or bool(self.dwell) or self.step_up),
            "verdict_people: a call that is denied has no outcome": self.then == "deny" and self.verdict_people > 1,
            "escalate and escalate_to: give both or none": bool(self.escalate) != bool(self.escalate_to),
            "dwell, remind and escalate: they come before the deadline": max(
                self.dwell or 0, self.remind or 0, self.escalate or 0
            )
            >= longest,
        }

    @property
    def outcome(self) -> PolicyOutcome:
        """What the rule says."""
        return OUTCOMES[self.then]

    @property
    def demand(self) -> Demand:
        """What the rule asks of people, as a wait keeps it."""
        return Demand(
            quorum=self.people,
            required_role=self.role,
            required_group=self.group,
            starter_may_decide=self.starter_may_decide,
            dwell_seconds=self.dwell or 0,
            step_up=self.step_up,
            risk=Risk(self.risk.upper()),
            batchable=self.batch,
            deadline_seconds=self.deadline,
            on_deadline=OnDeadline(self.on_deadline.upper()),
            validity_seconds=self.validity,
            reminder_seconds=self.remind,
            escalate_seconds=self.escalate,
            escalate_to=self.escalate_to,
        )


_CONDITIONS = {"tools", "effects", "agents", "environments", "hours", "amount_over", "condition"}
_ASKING = frozenset(set(Rule.model_fields) - {"name", "then", "verdict_people"} - _CONDITIONS)


class Mask(_Part):
    """Arguments of some tools that not everybody may see, as paths with dots, beside those that the tools mark themselves."""

    tools: Keys = ()
    agents: Keys = ()
    arguments: tuple[Annotated[Seen, Field(max_length=200)], ...] = Field(min_length=1, max_length=RULES_LIMIT)
    audited: bool = Field(default=False, strict=True)
    shown_to: Addressee = ""

    @field_validator("arguments")
    @classmethod
    def _paths(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        if any(not name for path in given for name in path.split(".")):
            raise ValueError('write the path of an argument as "to.iban"; * stands for any name')
        return given

    @property
    def marks(self) -> tuple[Mark, ...]:
        """What it marks, on the tools that it is about."""
        return tuple(mark_at(path, audited=self.audited, shown_to=self.shown_to) for path in self.arguments)


class Document(_Part):
    """The rules in their order, which argument of a tool holds its amount, as a path with dots, and which are masked."""

    amounts: dict[Annotated[str, AfterValidator(_key)], Annotated[Seen, Field(max_length=200)]] = {}
    mask: tuple[Mask, ...] = Field(default=(), max_length=RULES_LIMIT)
    rule: tuple[Rule, ...]

    @field_validator("rule", mode="before")
    @classmethod
    def _some(cls, given: Any) -> Any:
        if isinstance(given, list) and not 1 <= len(given) <= RULES_LIMIT:
            raise ValueError(f"write one to {RULES_LIMIT} rules, each under a line [[rule]]")
        return given


def matches_one(names: tuple[str, ...], name: str) -> bool:
    """Whether a name is one of these, in which * stands for anything; no names stand for every one."""
    return not names or any(fnmatchcase(name, pattern) for pattern in names)


@dataclass(frozen=True)
class Read:
    """What reading a text gave: the document, or the faults."""

    document: Document | None = None
    faults: tuple[Fault, ...] = field(default=())


def read(text: str) -> Read:
    """The rules that a text holds, or everything that is wrong with it."""
    too_long = _too_long(text)
    if too_long is not None:
        return Read(faults=(too_long,))
    try:
        return Read(Document.model_validate(tomllib.loads(text)))
    except tomllib.TOMLDecodeError as error:
        return Read(faults=(_unreadable(str(error)),))
    except ValidationError as error:
        lines = _Lines(text)
        return Read(faults=tuple(_fault(one["loc"], one["type"], one["msg"], lines) for one in error.errors()))
    except RecursionError:
        return Read(faults=(Fault("it is nested too deeply"),))


def _too_long(text: str) -> Fault | None:
    if len(text.encode("utf-8", "surrogatepass")) > TEXT_LIMIT:
        return Fault(f"it is longer than {TEXT_LIMIT // 1024} KiB")
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) > LINE_LIMIT:
            return Fault(f"it has {len(line)} characters, at most {LINE_LIMIT}", line=number)
    return None


def _unreadable(said: str) -> Fault:
    found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", said)
    return Fault(said[: found.start()] if found else said, line=int(found[1]) if found and found[1] else None)


def _fault(loc: tuple[Any, ...], kind: str, said: str, lines: "_Lines") -> Fault:
    number = loc[1] + 1 if len(loc) > 1 and loc[0] == "rule" else None
    path = loc[2:] if number else loc
    words = ".".join(str(part) for part in path)
    said = {"extra_forbidden": "there is no such field", "missing": "it is missing"}.get(kind, said)
    return Fault(said.removeprefix("Value error, "), number, words, lines.of(number, path))


class _Lines:
    """Where the fields of a text stand, found in one pass. The text in front of the first rule is number 0."""

    def __init__(self, text: str) -> None:
        self.heads: list[int] = [0]
        self._fields: dict[tuple[int, str], int] = {}
        for place, line in enumerate(text.splitlines(), start=1):
            if re.match(r"\s*\[\[\s*rule\s*\]\]", line):
                self.heads.append(place)
            elif named := re.match(r"\s*\[?(?:rule\.)?\"?([^\s\"\].=]+)\"?\s*[\].=]", line):
                self._fields.setdefault((len(self.heads) - 1, named[1]), place)

    def of(self, number: int | None, path: tuple[Any, ...]) -> int | None:
        """The line of a field, or that of the head of its rule; None where the text does not write rules one below the other."""
        rule = number or 0
        if rule >= len(self.heads):
            return None
        named = self._fields.get((rule, str(path[0]))) if path else None
        return named or self.heads[rule] or None
