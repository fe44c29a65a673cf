"""Numbers of a twin that a memory computes in float32: the twin goes on from the memory's, if only rounding differs.

Decisions depend on the last bit of these numbers: two experiences of the same utility are overwritten in the order of
their age, two whose utilities differ by one unit in the last place in the order of their utility. The memory adds the
errors of three neighbours in float32, in the order of their distance, so that equal utilities may be rounded apart. The
twin computes each number on its own and checks that the memory's is the same up to rounding; then it decides by the
memory's, so that phases, evictions, the order of writing and anchors must agree exactly.
"""

from __future__ import annotations

import math

from crystalrl.memory.crystal.ledger import CrystalLedger
from crystalrl.params import CrystalParams
from tests.reference_crystal.item import Rounded

ULP = 2.0**-24
"""Half a unit in the last place of a float32 in [1, 2): what one rounding of a sum of that size can change."""
DENORMAL = 1.2e-38
"""Below this, float32 has fewer digits."""


def rounded_by(ledger: CrystalLedger, lane: int) -> Rounded:
    """The numbers that the ledger holds after a consolidation, also those of experiences that it evicted."""
    held = {name: getattr(ledger, name)[lane].tolist() for name in WITHIN}

    def rounded(name: str, slot: int, value: float) -> float:
        given: float = held[name][slot]
        bound = WITHIN[name](value, ledger.params)
        assert abs(given - value) <= bound, f"{name} of slot {slot}: wanted {value!r} ± {bound:.2g}, got {given!r}"
        return given

    return rounded


def utility_bound(value: float, p: CrystalParams) -> float:
    """A sum of at most six float32 terms, each at most 2 before it is clipped. Where novelty is a ratio of float32
    distances, which may be small differences of states, it has fewer digits."""
    return 1e-5 + 2e-4 * value if p.novelty == "knn" else 16 * ULP


def c_bound(value: float, p: CrystalParams) -> float:
    """Euler's rule is computed in float64, so that only the result is rounded.

    A Beta variate near 0 is about u^(1/p), u uniform: if the relative error of the shape p is ε, that of the variate
    is ε·|ln c|. ε is that of the settling factor and of the interference, which are float32, and the exponent of the
    former may be 40.
    """
    if p.integrator == "euler":
        return 2 * ULP * value + 1e-15
    return 40 * ULP * 4 * value * (1 - math.log(max(value, DENORMAL))) + DENORMAL


WITHIN = {"utility": utility_bound, "c": c_bound}
