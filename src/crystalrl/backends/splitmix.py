from crystalrl.backends import GOLDEN, MIX_1, MIX_2, mix_int, signed  # noqa: F401
