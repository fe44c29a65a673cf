"""The hash behind every random number."""

from __future__ import annotations

from crystalrl.backends.splitmix import GOLDEN, mix_int, signed


def test_mix_is_the_published_splitmix64() -> None:
    state = 1234567
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [mix_int(state + k * GOLDEN) for k in range(1, 5)] == published


def test_signed_integers_have_the_bits_of_the_unsigned() -> None:
    values = [0, 1, 2**63 - 1, 2**63, 2**64 - 1, GOLDEN]
    assert [signed(value) & (2**64 - 1) for value in values] == values
    assert all(-(2**63) <= signed(value) < 2**63 for value in values)
