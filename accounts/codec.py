"""Bytes at rest: zstd on this side, then AES-GCM under a data key. The digest is always over the plain bytes."""

import hashlib
import os
import threading
from functools import lru_cache

import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES = 12

_local = threading.local()


class BodyChanged(ValueError):
    """The stored bytes were changed, or they were sealed with another key."""


def wrapping_key(master: str) -> bytes:
    """The 32-byte key that wraps data keys, from the configured master secret."""
    return hashlib.sha256(b"signalbox data key wrapping v1\0" + master.encode()).digest()


def seal(key: bytes, plain: bytes) -> bytes:
    """Compress and encrypt. Returns nonce and ciphertext."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + _cipher(key).encrypt(nonce, _compressor().compress(plain), None)


@lru_cache(maxsize=64)
def _cipher(key: bytes) -> AESGCM:
    return AESGCM(key)


def _compressor() -> zstandard.ZstdCompressor:
    """One for each thread: making one costs more than to compress a small body, and threads may not share it."""
    if not hasattr(_local, "compressor"):
        _local.compressor = zstandard.ZstdCompressor(level=3)
    compressor: zstandard.ZstdCompressor = _local.compressor
    return compressor


def unseal(key: bytes, sealed: bytes) -> bytes:
    """The plain bytes. Raises BodyChanged."""
    nonce, body = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
    if len(nonce) < NONCE_BYTES:
        raise BodyChanged
    try:
        return zstandard.decompress(_cipher(key).decrypt(nonce, body, None))
    except InvalidTag as error:
        raise BodyChanged from error
