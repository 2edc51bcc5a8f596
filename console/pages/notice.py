"""What the server says in place of the sentence under a title: first what did not happen, then why, then what now."""

from dataclasses import dataclass

from django.utils.safestring import SafeString

from accounts.errors import Refused
from console.pages.text import exact


@dataclass(frozen=True)
class Notice:
    """One notice. `alert` is announced at once; it answers something that the reader just did."""

    lamp: str
    title: SafeString | str
    say: SafeString | str = ""
    code: str = ""
    url: str = ""
    link: SafeString | str = ""
    alert: bool = False

    @property
    def role(self) -> str:
        return "alert" if self.alert else "status"


def refusal_notice(refused: Refused, *, say: str = "", url: str = "", link: SafeString | str = "") -> Notice:
    """The notice of a refused act. It may hold what the person typed, so it goes through `exact`."""
    return Notice("stop", exact(refused.sentence), say, refused.code, url, link, alert=True)
