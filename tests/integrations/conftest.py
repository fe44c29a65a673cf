"""Tianshou is imported before any test does it: its functions are interpreted, which saves their compilation in every
process. The tests of the examples run them compiled."""

from __future__ import annotations

from importlib.util import find_spec

from tests.integrations.killed import import_tianshou_uncompiled

if find_spec("tianshou") is not None and find_spec("numba") is not None:
    import_tianshou_uncompiled()
