"""What the agents of the prepared cases can do: tools of a small trading house, whose effects happen in the outside world."""

import re
from abc import ABC, abstractmethod
from typing import ClassVar

from receipts.states import EffectClass
from runs.canonical import canonical
from runtime.contracts import Arguments, ToolContext, ToolFailed, ToolOutcome
from runtime.tools.base import PlainTool, expect
from runtime.tools.http import refuse_unless_done, says_not_executed, send

BOOK = (
    ("The book of the other side: every key that it executed, and what for", "/"),
    ("The other side, asked for this key alone", "/wiki/posts?key={key}"),
)
INVOICES: dict[str, dict[str, str]] = {
    "OT-5521": {"payee": "Otter Marine", "amount": "1840.00", "currency": "EUR", "account": "DE41500105175407324931"},
    "TB-0907": {"payee": "Tallow & Birch", "amount": "265.40", "currency": "EUR", "account": "DE75512108001245126199"},
}
RATES = {"opening": "1.0820", "noon": "1.1975"}


def slug(text: str) -> str:
    """The label of a step."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60] or "unnamed"


class _Order(PlainTool, ABC):
    """Sends its arguments to the other side, which does it again if it is asked again."""

    key: ClassVar[str]
    version: ClassVar[str] = "1"
    description: ClassVar[str]
    effect_class: ClassVar[EffectClass] = EffectClass.NON_IDEMPOTENT
    timeout_seconds: ClassVar[float] = 15.0
    arguments: ClassVar[type[Arguments]]
    look: ClassVar[tuple[tuple[str, str], ...]] = BOOK

    @abstractmethod
    def step_label(self, args: Arguments) -> str:
        """What is ordered, and where."""

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        """Once."""
        title = f"{self.key} {self.step_label(args)}"
        body = canonical({"title": title, "body": canonical(args.model_dump(mode="json")).decode()})
        answer = send(context, "POST", "/wiki/posts", body=body)
        refuse_unless_done(answer, reading=False, not_done=says_not_executed)
        done = answer.object()
        return ToolOutcome(done, external_ref=str(done["id"]), target=self.key)


class PaymentArguments(Arguments):
    payee: str
    account: str
    amount: str
    currency: str
    reference: str
    note: str = ""


class Pay(_Order):
    """Pays an amount to an account."""

    key: ClassVar[str] = "pay"
    description: ClassVar[str] = "Pay an amount to an account."
    arguments: ClassVar[type[Arguments]] = PaymentArguments

    def step_label(self, args: Arguments) -> str:
        return slug(expect(args, PaymentArguments).payee)


class MailArguments(Arguments):
    mailing: str
    to: tuple[str, ...]
    subject: str
    body: str


class SendMail(_Order):
    """Sends a mail."""

    key: ClassVar[str] = "send_mail"
    description: ClassVar[str] = "Send a mail to people or lists."
    arguments: ClassVar[type[Arguments]] = MailArguments

    def step_label(self, args: Arguments) -> str:
        return slug(expect(args, MailArguments).mailing)


class NoticeArguments(Arguments):
    board: str
    title: str
    body: str


class PostNotice(_Order):
    """Posts a notice that everybody can read."""

    key: ClassVar[str] = "post_notice"
    description: ClassVar[str] = "Post a notice on a public board."
    arguments: ClassVar[type[Arguments]] = NoticeArguments

    def step_label(self, args: Arguments) -> str:
        return slug(expect(args, NoticeArguments).board)


class DeleteArguments(Arguments):
    folder: str
    file: str
    why: str


class DeleteFile(_Order):
    """Deletes a file for good."""

    key: ClassVar[str] = "delete_file"
    description: ClassVar[str] = "Delete a file for good."
    arguments: ClassVar[type[Arguments]] = DeleteArguments

    def step_label(self, args: Arguments) -> str:
        return slug(expect(args, DeleteArguments).folder)


class DeleteFileAnew(DeleteFile):
    """The same name after a deploy: it deletes what stands in the folder beside the file as well."""

    version: ClassVar[str] = "2"
    description: ClassVar[str] = "Delete a file for good, with everything below its folder."


class LimitArguments(Arguments):
    account: str
    limit_units: str
    unit: str


class SetLimit(_Order):
    """Sets how many units an account may draw."""

    key: ClassVar[str] = "set_limit"
    description: ClassVar[str] = "Set the limit of an account."
    arguments: ClassVar[type[Arguments]] = LimitArguments

    def step_label(self, args: Arguments) -> str:
        return slug(expect(args, LimitArguments).account)


class AccessArguments(Arguments):
    person: str
    system: str
    role: str
    until: str


class GrantAccess(_Order):
    """Lets a person into a system."""

    key: ClassVar[str] = "grant_access"
    description: ClassVar[str] = "Give a person a role in a system until a day."
    arguments: ClassVar[type[Arguments]] = AccessArguments

    def step_label(self, args: Arguments) -> str:
        return slug(expect(args, AccessArguments).person)


class FilingArguments(Arguments):
    cabinet: str
    document: str


class FileDocument(_Order):
    """Puts a document into a cabinet."""

    key: ClassVar[str] = "file_document"
    description: ClassVar[str] = "File a document."
    effect_class: ClassVar[EffectClass] = EffectClass.IDEMPOTENT
    window_seconds: ClassVar[float] = 3600.0
    arguments: ClassVar[type[Arguments]] = FilingArguments

    def step_label(self, args: Arguments) -> str:
        return slug(expect(args, FilingArguments).document)


class FaxArguments(Arguments):
    number: str
    text: str


class SendFax(_Order):
    """Sends a fax; nobody can be asked whether it went."""

    key: ClassVar[str] = "send_fax"
    description: ClassVar[str] = "Send a fax."
    arguments: ClassVar[type[Arguments]] = FaxArguments
    look: ClassVar[tuple[tuple[str, str], ...]] = ()

    def step_label(self, args: Arguments) -> str:
        return slug(expect(args, FaxArguments).number)


class InvoiceArguments(Arguments):
    invoice: str


class ReadInvoice(PlainTool):
    """Reads what an invoice asks for."""

    key: ClassVar[str] = "read_invoice"
    version: ClassVar[str] = "1"
    description: ClassVar[str] = "Read an invoice of the register."
    effect_class: ClassVar[EffectClass] = EffectClass.READ_ONLY
    timeout_seconds: ClassVar[float] = 5.0
    arguments: ClassVar[type[Arguments]] = InvoiceArguments

    def step_label(self, args: Arguments) -> str:
        return slug(expect(args, InvoiceArguments).invoice)

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        number = expect(args, InvoiceArguments).invoice
        if number not in INVOICES:
            raise ToolFailed(f"The register has no invoice {number}.")
        return ToolOutcome({"invoice": number, **INVOICES[number]})


class RateArguments(Arguments):
    pair: str
    fixing: str


class ReadRate(PlainTool):
    """Reads what a currency costs. What it says holds for a minute and a half."""

    key: ClassVar[str] = "read_rate"
    version: ClassVar[str] = "1"
    description: ClassVar[str] = "Read what a currency costs."
    effect_class: ClassVar[EffectClass] = EffectClass.READ_ONLY
    timeout_seconds: ClassVar[float] = 5.0
    arguments: ClassVar[type[Arguments]] = RateArguments
    half_life_seconds: ClassVar[float | None] = 90.0

    def step_label(self, args: Arguments) -> str:
        asked = expect(args, RateArguments)
        return slug(f"{asked.pair} {asked.fixing}")

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        asked = expect(args, RateArguments)
        return ToolOutcome({"pair": asked.pair, "fixing": asked.fixing, "rate": RATES[asked.fixing]})


class PurchaseArguments(Arguments):
    currency: str
    amount: str


class BuyCurrency(_Order):
    """Buys a currency at the rate of the moment."""

    key: ClassVar[str] = "buy_currency"
    description: ClassVar[str] = "Buy a currency at the rate of the moment."
    arguments: ClassVar[type[Arguments]] = PurchaseArguments

    def step_label(self, args: Arguments) -> str:
        return slug(expect(args, PurchaseArguments).currency)
