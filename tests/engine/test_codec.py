"""Bodies at rest: what was sealed comes back, and nothing else does."""

import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.codec import NONCE_BYTES, BodyChanged, seal, unseal, wrapping_key

KEY = secrets.token_bytes(32)
PLAIN = b'{"note":"the canary of this test, long enough to be compressed: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}'


@given(st.binary(max_size=5000))
def test_what_was_sealed_comes_back(plain: bytes) -> None:
    assert unseal(KEY, seal(KEY, plain)) == plain


def test_a_large_body_shrinks_and_comes_back() -> None:
    plain = b"0123456789" * 200_000
    sealed = seal(KEY, plain)
    assert len(sealed) < len(plain) / 100
    assert unseal(KEY, sealed) == plain


def test_the_same_body_is_never_sealed_the_same_way_twice() -> None:
    assert len({seal(KEY, PLAIN) for _ in range(100)}) == 100


def test_a_sealed_body_shows_nothing_of_the_plain_one() -> None:
    sealed = seal(KEY, PLAIN)
    assert not any(PLAIN[i : i + 6] in sealed for i in range(len(PLAIN) - 6))


def test_any_changed_bit_is_noticed() -> None:
    sealed = seal(KEY, b"short")
    for position in range(len(sealed) * 8):
        changed = bytearray(sealed)
        changed[position // 8] ^= 1 << position % 8
        with pytest.raises(BodyChanged):
            unseal(KEY, bytes(changed))


@pytest.mark.parametrize("end", [0, 1, NONCE_BYTES - 1, NONCE_BYTES, NONCE_BYTES + 15, -1])
def test_a_cut_body_is_noticed(end: int) -> None:
    with pytest.raises(BodyChanged):
        unseal(KEY, seal(KEY, PLAIN)[:end])


def test_another_key_opens_nothing() -> None:
    with pytest.raises(BodyChanged):
        unseal(secrets.token_bytes(32), seal(KEY, PLAIN))


def test_each_master_secret_gives_a_wrapping_key_of_its_own() -> None:
    keys = {wrapping_key(master) for master in ("", "a", "b", "a\0")}
    assert {len(key) for key in keys} == {32}
    assert len(keys) == 4
