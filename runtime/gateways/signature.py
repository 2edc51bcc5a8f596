"""How a webhook can tell that a notice comes from here: the headers of Standard Webhooks, with a secret that both know."""

import base64
import hmac
from uuid import UUID

ENCODED = "whsec_"  # what a secret begins with that is written in base64


def signing_key(secret: str) -> bytes:
    """The bytes that a webhook is signed with. Raises binascii.Error."""
    encoded = secret.removeprefix(ENCODED)
    return secret.encode() if encoded == secret else base64.b64decode(encoded, validate=True)


def signed(secret: str, *, id: UUID, at: int, body: bytes) -> dict[str, str]:
    """The headers that go with a body that is sent at this second of the epoch."""
    said = f"{id}.{at}.".encode() + body
    made = base64.b64encode(hmac.digest(signing_key(secret), said, "sha256")).decode()
    return {"Webhook-Id": str(id), "Webhook-Timestamp": str(at), "Webhook-Signature": f"v1,{made}"}
