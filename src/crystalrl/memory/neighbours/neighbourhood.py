"""What a consolidation needs to know about who is near whom, computed anew from all pairs: O(N²), the reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crystalrl.memory.crystal import interference
from crystalrl.memory.crystal.interference import Scene
from crystalrl.memory.crystal.snapshot import Draft
from crystalrl.memory.neighbours import exact as neighbours

if TYPE_CHECKING:
    from crystalrl.memory.crystal.memory import CrystalMemory


@dataclass(frozen=True)
class Surroundings:
    """near: the stored states nearest to each successor state, where anything asks for them; flagged bool[L, W]:
    contradicted; ε and δ_r [L, 1] that were used."""

    near: neighbours.Near | None
    flagged: Tensor
    epsilon: Tensor
    delta_r: Tensor


def exact(memory: CrystalMemory, draft: Draft) -> Surroundings:
    """From all pairs."""
    params = memory.params
    raw, successor = (memory.features(draft.fields[role]) for role in ("obs", "next_obs"))
    mean, deviation = neighbours.moments(raw, draft.occupied)
    state = (raw - mean) / deviation
    near = None
    if needs_near(memory):
        near = neighbours.nearest((successor - mean) / deviation, state, draft.occupied, params.k)
    scene = _scene(memory, draft, raw if params.raw_distance else state)
    epsilon, delta_r = _scales(memory, draft, scene)
    return Surroundings(near, interference.contradicted(params.interference, scene, epsilon, delta_r), epsilon, delta_r)


def needs_near(memory: CrystalMemory) -> bool:
    """Whether the downstream value, the backup or novelty asks who is near a successor state."""
    valued = memory.params.downstream == "neighbours" and any(memory.lane_value("w3").flatten().tolist())
    return valued or bool(memory.params.backup) or memory.params.novelty == "knn"


def reward_spread(memory: CrystalMemory, draft: Draft) -> Tensor:
    """δ_r float32[L, 1]: as given, or from what is stored."""
    if memory.params.delta_r is not None:
        return memory.lane_value("delta_r").to(torch.float32)
    _, spread = neighbours.moments(draft.fields["reward"][..., None], draft.occupied)
    return spread[:, 0].to(torch.float32)


def _scales(memory: CrystalMemory, draft: Draft, scene: Scene) -> tuple[Tensor, Tensor]:
    """ε and δ_r, float32[L, 1]: as given, or from what is stored."""
    if memory.params.interference == "none":
        nothing = torch.zeros(memory.lanes, 1, device=memory.device)
        return nothing, nothing
    if memory.params.epsilon is not None:
        epsilon = memory.lane_value("epsilon").to(torch.float32)
    elif memory.params.interference == "exists":
        epsilon = neighbours.median_spacing(scene.state, scene.occupied)
    else:
        epsilon = interference.spacing(scene, memory.params.k)
    return epsilon, reward_spread(memory, draft)


def _scene(memory: CrystalMemory, draft: Draft, compared: Tensor) -> Scene:
    """What the rules of interference look at."""
    action = draft.fields["action"].to(torch.float32).unsqueeze(-1).flatten(2)
    if not (memory.discrete or memory.params.raw_distance):
        mean, deviation = neighbours.moments(action, draft.occupied)
        action = (action - mean) / deviation
    fields = draft.fields
    phase, context = draft.phase, fields["context"]
    return Scene(compared, action, fields["reward"], draft.birth, phase, draft.fresh, context, memory.discrete)
