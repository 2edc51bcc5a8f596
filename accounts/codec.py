"""Bytes at rest: zstd on this side, then AES-GCM under a data key. The digest is always over the plain bytes."""

import hashlib
import os

import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES = 12


class BodyChanged(ValueError):
    """The stored bytes were changed, or they were sealed with another key."""


def wrapping_key(master: str) -> bytes:
    """The 32-byte key that wraps data keys, from the configured master secret."""
    return hashlib.sha256(b"signalbox data key wrapping v1\0" + master.encode()).digest()


def seal(key: bytes, plain: bytes) -> bytes:
    """Compress and encrypt. Returns nonce and ciphertext."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, zstandard.compress(plain, 3), None)


def unseal(key: bytes, sealed: bytes) -> bytes:
    """The plain bytes. Raises BodyChanged."""
    nonce, body = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
    if len(nonce) < NONCE_BYTES:
        raise BodyChanged
    try:
        return zstandard.decompress(AESGCM(key).decrypt(nonce, body, None))
    except InvalidTag as error:
        raise BodyChanged from error
