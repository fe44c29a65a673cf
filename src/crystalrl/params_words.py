"""The parameters of a crystal memory in words."""

from __future__ import annotations

import math
from typing import Any

from crystalrl.params_checks import floats


def describe(params: Any, slots: int, utility: float, interference: float) -> str:
    """See `CrystalParams.describe`."""
    gain, loss = _rates(params, utility, interference)
    target = gain / (gain + loss) if gain + loss else 0.0
    liquid, glass, crystal = params.caps(slots)
    thresholds = (("glass", params.tau_L), ("crystal", params.tau_C))
    lines = [
        f"An experience of utility {utility:g} under interference {interference:g}:",
        *(f"  {_arrival(params, name, floats(tau)[0], target, gain + loss, slots)}" for name, tau in thresholds),
        f"  tends to c* = {target:.3f}",
        f"Slots: {liquid:,} liquid, {glass:,} glass, {crystal:,} crystal.",
        f"Consolidation every {params.interval(slots):,} environment steps"
        + (" and at the end of each episode." if params.every_episode else "."),
    ]
    return "\n".join(lines)


def _rates(params: Any, utility: float, interference: float) -> tuple[float, float]:
    """Gain and loss per unit of time."""
    alpha, beta, leak = (floats(x)[0] for x in (params.alpha, params.beta, params.leak))
    if params.melt is None:
        return alpha * utility, beta * interference + leak
    return alpha * utility * (1 - interference), floats(params.melt)[0] * interference + leak


def _arrival(params: Any, phase: str, tau: float, target: float, rate: float, slots: int) -> str:
    if target <= tau:
        return f"never becomes {phase}: the mean of c stays below {tau:g}"
    time = -math.log(1 - tau / target) / rate
    if params.clock == "calls":
        return f"becomes {phase} after {time / params.delta_t:,.0f} consolidations"
    return f"becomes {phase} after {time * params.unit(slots):,.0f} environment steps"
