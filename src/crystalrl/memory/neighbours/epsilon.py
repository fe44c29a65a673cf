"""ε of memories that keep lists: measured as all pairs have it, from the same sample, in the units of the lists."""

from __future__ import annotations

import torch
from torch import Tensor

from crystalrl.dynamics import LIQUID
from crystalrl.memory.crystal import interference
from crystalrl.memory.crystal.interference import Scene
from crystalrl.memory.crystal.snapshot import Draft, padded
from crystalrl.memory.neighbours import exact as neighbours
from crystalrl.memory.neighbours.states import States


def spacing_of(states: States, draft: Draft) -> Tensor:
    """ε float32[L, 1]: as given, or from what is stored."""
    memory = states.memory
    params, rule = memory.params, memory.params.interference
    if params.epsilon is not None:
        return memory.lane_value("epsilon").to(torch.float32)
    counting = draft.phase == LIQUID if rule != "exists" else draft.occupied
    step = -(-draft.width.to(counting.device)[:, None] // interference.SAMPLED)
    sampled = torch.arange(draft.slots, device=counting.device) % step == 0
    first, rest = padded(counting & sampled), padded(counting & ~sampled)
    slots, real = torch.cat([first[0], rest[0]], 1), torch.cat([first[1], rest[1]], 1)
    lane = torch.arange(memory.lanes, device=slots.device)[:, None].expand_as(slots)
    state = states.vectors("obs", slots)
    if params.raw_distance:
        state = state * states.deviation
    if rule == "exists":
        return neighbours.median_spacing(state, real)
    action = states.actions(lane, slots)
    if not (memory.discrete or params.raw_distance):
        action = action / states.action_deviation
    context = states.column("context", lane, slots) if memory.spec.context else None
    scene = Scene(state, action, state[..., 0], slots, real.to(torch.uint8), real, context, memory.discrete)
    return interference.spacing(scene, params.k, 1, first[0].shape[1])
