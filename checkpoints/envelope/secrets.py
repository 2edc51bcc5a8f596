"""What may stand in no snapshot, and in no column that is not encrypted: secrets, by the forms that their issuers declare.

Pure Python.
"""

import base64
import re

# Name, and the form. Each is anchored on a prefix that its issuer documents, so that ids and digests never match.
FORMS: tuple[tuple[str, str], ...] = (
    ("private key", r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----"),
    ("Signalbox token", r"\bsb_[A-Za-z0-9_-]{43}"),
    ("AWS access key", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    ("Google API key", r"\bAIza[0-9A-Za-z_-]{35}"),
    ("GitHub token", r"\bgh[pousr]_[A-Za-z0-9]{36,}|\bgithub_pat_[A-Za-z0-9_]{22,}"),
    ("GitLab token", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    ("Slack token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("model provider's API key", r"\bsk-[A-Za-z0-9_-]{20,}"),
    ("Stripe key", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("JSON web token", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    ("authorization header", r"\b[Aa]uthorization:\s*(?:[Bb]earer|[Bb]asic)\s+[A-Za-z0-9._~+/=-]{16,}"),
    ("password in an address", r"\b[a-z][a-z0-9+.-]*://[^\s:/@]+:[^\s:/@]+@"),
)
_ANY = re.compile("|".join(f"(?P<f{number}>{form})" for number, (_, form) in enumerate(FORMS)))


SHORTEST = 8  # the shortest text of a form: a://b:c@

# Each form holds one of these, so a text without them holds no secret. Looking for them is much quicker than the forms.
_MARKS = (
    *("-----BEGIN ", "sb_", "AKIA", "ASIA", "AIza", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
    *("xox", "sk-", "k_live_", "k_test_", "eyJ", "uthorization:", "://"),
)


# Base64, in either alphabet, as long as that of the shortest secret. Ids and digests are hexadecimal and are passed over.
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{20,}")
_HEXADECIMAL = re.compile(r"[0-9a-f-]+")
_TO_URLSAFE = str.maketrans("+/", "-_")


def secret_in(text: str) -> str | None:
    """The kind of secret that a text holds, as it is or in base64, or None. Says what, never the secret itself."""
    if len(text) < SHORTEST or _HEXADECIMAL.fullmatch(text):  # no mark is hexadecimal
        return None
    found = _form_in(text)
    if found or len(text) < 20:
        return found
    return next((kind for run in _BASE64.findall(text) if (kind := _form_in(_decoded(run)))), None)


def _form_in(text: str) -> str | None:
    if not any(mark in text for mark in _MARKS):
        return None
    found = _ANY.search(text)
    return FORMS[int(found.lastgroup[1:])][0] if found and found.lastgroup else None


def _decoded(run: str) -> str:
    whole = run[:-1] if len(run) % 4 == 1 else run
    return base64.urlsafe_b64decode(whole.translate(_TO_URLSAFE) + "=" * (-len(whole) % 4)).decode("latin-1")


def withheld(text: str) -> str:
    """The text, or what kind of secret it holds in place of it: for what was said outside and is stored to be read."""
    found = secret_in(text)
    return f"withheld: it looks like a {found}" if found else text
