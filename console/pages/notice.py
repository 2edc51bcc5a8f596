"""What the server says in place of the sentence under a title: first what did not happen, then why, then what now."""

from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus

from django.utils.safestring import SafeString

from accounts.errors import Refused
from console.templatetags.moments import told


@dataclass(frozen=True)
class Notice:
    """One notice. `alert` is announced at once; it answers something that the reader just did. `field` is what does not fit in the
    form, by its name there; the page ties the two together.
    """

    lamp: str
    title: SafeString | str
    say: SafeString | str = ""
    code: str = ""
    url: str = ""
    link: SafeString | str = ""
    alert: bool = False
    field: str = ""

    @property
    def role(self) -> str:
        return "alert" if self.alert else "status"


def refusal_notice(refused: Refused, *, form: str = "") -> Notice:
    """The notice of a refused act. It may hold what the person typed, so it goes through `told`, which names odd characters.

    `form` names the form's element: whoever left something out is led back to it.
    """
    back = form if refused.status == HTTPStatus.BAD_REQUEST else ""
    link, field = "Back to the form" if back else "", str(refused.facts.get("field", ""))
    return Notice("stop", told(refused.sentence), "", refused.code, back, link, alert=True, field=field)


def asked_before(by: str, at: datetime) -> str:
    """What is said to who asks for a stop or a pause that stands already, by the label of who asked first."""
    name = by.partition(":")[2]
    return f"It stood already: {name} asked for it at {at:%Y-%m-%d %H:%M:%S} UTC. Your reason was not stored."
