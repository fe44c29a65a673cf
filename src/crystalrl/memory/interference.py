"""Which experiences are contradicted, and whose future is.

Rules, by name:

exists          the paper's: some stored experience lies within ε of mine in state plus action, and its reward differs
                from mine by more than δ_r. Symmetric, so the new are flagged with the old, and the more neighbours
                there are the surer one of them differs.
newer_majority  more than half of the newer experiences within ε, same context and action, differ by more than δ_r; at
                least two of them do.
fresh_mean      the mean reward of the liquid experiences within ε, same action, differs from mine by more than δ_r.
                Only glass and crystal can be contradicted.

The last two forgive noise. If the new ones agree with the elders among the neighbours, nothing has changed, and an
experience at odds with both was an outlier from the start. So fresh_mean asks, too, that the mean reward has changed
between the solid and the liquid neighbours by half of δ_r, and newer_majority that the share of those who differ has
grown by a quarter. `docs/decisions/interference.md` has the measurements.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.dynamics import LIQUID
from crystalrl.memory.neighbours import Near, chunks, distances

CHANGE = 0.5
"""How much of δ_r (or of the majority) must be change rather than noise."""


@dataclass(frozen=True)
class Scene:
    """What the rules look at; every field [L, N, …].

    state, action float32 vectors (a discrete action is a single code and compared for equality; see `discrete`),
    reward, birth int64 (order of arrival), phase uint8, context int64 or None.
    """

    state: Tensor
    action: Tensor
    reward: Tensor
    birth: Tensor
    phase: Tensor
    context: Tensor | None
    discrete: bool

    @property
    def occupied(self) -> Tensor:
        return self.phase > 0


def contradicted(rule: str, scene: Scene, epsilon: Tensor, delta_r: Tensor) -> Tensor:
    """bool[L, N]: flagged by the rule; epsilon and delta_r float32[L, 1]."""
    flagged = torch.zeros_like(scene.occupied)
    if rule == "none":
        return flagged
    look = {"exists": _exists, "newer_majority": _newer_majority, "fresh_mean": _fresh_mean}[rule]
    lanes, slots = scene.phase.shape
    for part in chunks(slots, 3 * lanes, slots):
        flagged[:, part] = look(scene, part, epsilon[:, None], delta_r[:, None])
    return flagged & scene.occupied


def _exists(scene: Scene, rows: slice, epsilon: Tensor, delta_r: Tensor) -> Tensor:
    near = distances(scene.state[:, rows], scene.state) + _action_distance(scene, rows) < epsilon
    near &= _differ(scene, rows, delta_r)
    near &= scene.occupied[:, None, :]
    return _without_self(near, rows).any(-1)


def _newer_majority(scene: Scene, rows: slice, epsilon: Tensor, delta_r: Tensor) -> Tensor:
    near = _alike(scene, rows, epsilon) & scene.occupied[:, None, :]
    against = near & _differ(scene, rows, delta_r)
    newer = scene.birth[:, None, :] > scene.birth[:, rows, None]
    newer_against, newer_all = _count(against & newer), _count(near & newer)
    elders_against, elders_all = _count(against) - newer_against, _count(near) - newer_all
    changed = newer_against / newer_all.clamp_min(1) - elders_against / elders_all.clamp_min(1) > CHANGE / 2
    return (newer_against >= 2) & (2 * newer_against > newer_all) & changed


def _fresh_mean(scene: Scene, rows: slice, epsilon: Tensor, delta_r: Tensor) -> Tensor:
    fresh, solid = ((scene.phase == LIQUID), (scene.phase > LIQUID))
    columns = torch.stack([fresh, fresh * scene.reward, solid, solid * scene.reward], -1)
    near = _alike(scene, rows, epsilon).to(torch.float32)
    fresh_count, fresh_sum, solid_count, solid_sum = torch.bmm(near, columns).unbind(-1)
    mine, limit = scene.reward[:, rows], delta_r[..., 0]
    fresh_mean, solid_mean = fresh_sum / fresh_count.clamp_min(1), solid_sum / solid_count.clamp_min(1)
    against = (fresh_count > 0) & ((fresh_mean - mine).abs() > limit)
    changed = (solid_count == 0) | ((fresh_mean - solid_mean).abs() > CHANGE * limit)
    return against & changed & solid[:, rows]


def _count(mask: Tensor) -> Tensor:
    """Entries of the mask [L, R, N] per row; through floats, which torch adds up far faster than booleans."""
    return mask.to(torch.float32).sum(-1)


def _without_self(near: Tensor, rows: slice) -> Tensor:
    row = torch.arange(near.shape[1], device=near.device)
    near[:, row, row + rows.start] = False
    return near


def _differ(scene: Scene, rows: slice, delta_r: Tensor) -> Tensor:
    return (scene.reward[:, rows, None] - scene.reward[:, None, :]).abs() > delta_r


def _action_distance(scene: Scene, rows: slice) -> Tensor:
    """As the paper adds it to the state's; for discrete actions the distance of their one-hot codes."""
    if scene.discrete:
        return (scene.action[:, rows] != scene.action.transpose(1, 2)) * 2**0.5
    return distances(scene.action[:, rows], scene.action)


def _alike(scene: Scene, rows: slice, epsilon: Tensor) -> Tensor:
    """bool[L, R, N]: another slot in nearly the same state, (nearly) the same action and the same context."""
    near = distances(scene.state[:, rows], scene.state) < epsilon
    if scene.discrete:
        near &= scene.action[:, rows] == scene.action.transpose(1, 2)
    else:
        near &= distances(scene.action[:, rows], scene.action) < epsilon
    if scene.context is not None:
        near &= scene.context[:, rows, None] == scene.context[:, None, :]
    return _without_self(near, rows)


def back_up(flagged: Tensor, suspicion: Tensor, near: Near, alive: Tensor, factor: float, sweeps: int) -> Tensor:
    """W float32[L, N]: W ← max(I, factor·mean W of the neighbours of s′), from the given suspicion, so many times.

    flagged bool[L, N] is I; alive bool[L, N]: whether the episode went on after s′.
    """
    own = flagged.to(torch.float32)
    zero = torch.zeros(len(own), 1, device=own.device)
    for _ in range(sweeps):
        suspicion = torch.maximum(own, factor * near.mean(suspicion, zero, first=5) * alive)
    return suspicion
