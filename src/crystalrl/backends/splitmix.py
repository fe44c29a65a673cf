"""SplitMix64, the hash behind every random number: its constants, and its output function on Python integers."""

from __future__ import annotations

GOLDEN = 0x9E3779B97F4A7C15
"""Step of the Weyl sequence that is hashed."""
MIX_1, MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Factors of the output function."""
MASK = (1 << 64) - 1


def mix_int(x: int) -> int:
    """The SplitMix64 output function of one unsigned Python integer."""
    x &= MASK
    x = ((x ^ (x >> 30)) * MIX_1) & MASK
    x = ((x ^ (x >> 27)) * MIX_2) & MASK
    return x ^ (x >> 31)


def signed(value: int) -> int:
    """The int64 with the bits of an unsigned 64-bit integer."""
    value &= MASK
    return value - (1 << 64) if value >> 63 else value
