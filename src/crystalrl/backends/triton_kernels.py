"""Triton kernels for memories and optimisers on CUDA. Reached through `kernels.fused_for()`: importing loads Triton.

What they compute is written down in torch, in `crystalrl.memory`; tests compare the two.
"""

from crystalrl.backends import triton_adam as adam
from crystalrl.backends import triton_pairs as pairs
from crystalrl.backends.triton_tree import TOP, Tree, build_sums, descend, learn, sample, set_weights
from crystalrl.backends.triton_writes import Columns, magnitude, place, probe, store_rows, strength, written

__all__ = [
    "TOP",
    "Columns",
    "Tree",
    "adam",
    "build_sums",
    "descend",
    "learn",
    "magnitude",
    "pairs",
    "place",
    "probe",
    "sample",
    "set_weights",
    "store_rows",
    "strength",
    "written",
]
