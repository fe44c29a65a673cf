"""Memory-matched studies: the largest capacity within a budget in megabytes, measured on the memory itself."""

from __future__ import annotations

from dataclasses import replace

import torch

from crystalrl.study.plan import plan
from crystalrl.study.run import Trainer
from crystalrl.study.spec import RunSpec


def capacity_for(spec: RunSpec) -> RunSpec:
    """The spec with the largest capacity for which memory and method fit the budget in all its variants; without a
    budget, the spec itself.
    """
    if not spec.budget_mb:
        return spec
    alike = {f"{number}": replace(variant, seeds=(0,)) for number, variant in enumerate(spec.variants().values())}
    capacities = [_largest(group.spec) for group in plan(alike)]  # shapes are equal within a group
    return replace(spec, capacity=min(capacities), budget_mb=0.0)


def _largest(spec: RunSpec) -> int:
    """The largest capacity that fits: bytes never decrease with the capacity, and are almost a line."""
    budget, fits = int(spec.budget_mb * 1e6), max(spec.batch, 2 * spec.envs)
    least = nbytes_at(spec, fits)
    if least > budget:
        wanted = f"{least / 1e6:.3f} MB, which {fits} experiences need"
        raise ValueError(f"budget_mb: wanted at least {wanted}, got {spec.budget_mb:g}")
    slope = (nbytes_at(spec, 2 * fits) - least) / fits
    fails = fits + int((budget - least) / max(slope, 1.0)) + 2
    while (most := nbytes_at(spec, fails)) <= budget:
        fits, fails, least = fails, 2 * fails, most
    return _between(spec, budget, (fits, least), (fails, most))


def _between(spec: RunSpec, budget: int, fits: tuple[int, int], fails: tuple[int, int]) -> int:
    """The largest capacity that fits, between two with their bytes: tries the interpolated one and the middle by
    turns."""
    straight = True
    while fails[0] - fits[0] > 1:
        gap = fails[0] - fits[0]
        share = (budget - fits[1]) / (fails[1] - fits[1]) if straight else 0.5
        middle = fits[0] + min(max(int(gap * share), 1), gap - 1)
        held = nbytes_at(spec, middle)
        fits, fails = ((middle, held), fails) if held <= budget else (fits, (middle, held))
        straight = not straight or fails[0] - fits[0] < gap / 8
    return fits[0]


def nbytes_at(spec: RunSpec, capacity: int) -> int:
    """Bytes that the memory and the method of one lane hold at a capacity."""
    group, *_ = plan({"": replace(spec, capacity=capacity, budget_mb=0.0, seeds=spec.seeds[:1])})
    trainer = Trainer(group, torch.device("cpu"))
    return (trainer.memory.nbytes + trainer.method.nbytes) // len(group.lanes)
