"""Forms that act once, however often they are sent: clicked twice, sent again by the browser, or from a page that was gone back to."""

from uuid import UUID

from accounts.models import SentForm
from accounts.statements import fetch

# Whoever comes second waits for nobody: the first one's key is committed before it acts.
_SEND = """
WITH old AS (DELETE FROM accounts_sentform WHERE at < clock_timestamp() - interval '1 day')
INSERT INTO accounts_sentform (key, at) VALUES (%(key)s, clock_timestamp()) ON CONFLICT (key) DO NOTHING RETURNING key"""


def form_send(*, key: UUID) -> bool:
    """Note that a form is being sent, before it acts. False where it was sent before: then it does not act. Called by the pages,
    outside any transaction.
    """
    return bool(fetch(_SEND, {"key": key}))


def form_free(*, key: UUID) -> None:
    """Forget a form that did nothing, because it was refused: what was put right in it may be sent again."""
    SentForm.objects.filter(key=key).delete()
