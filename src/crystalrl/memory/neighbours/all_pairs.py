"""Neighbours and contradictions from a comparison of all pairs: O(N²), the reference for `graph`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from crystalrl.backends.protocols import Pairs
from crystalrl.memory.neighbours.contradiction import contradicted
from crystalrl.memory.neighbours.epsilon import Scales
from crystalrl.memory.neighbours.exact import Near, moments, nearest
from crystalrl.memory.neighbours.experiences import Experiences
from crystalrl.memory.neighbours.features import Features
from crystalrl.memory.neighbours.view import View
from crystalrl.params import CrystalParams
from crystalrl.params_checks import floats


@dataclass(frozen=True, eq=False)
class Found:
    """The results of a search for neighbours."""

    near: Near | None
    """The k stored states nearest to each successor state; None where no parameter needs them."""
    flagged: Tensor
    """bool[L, W]: contradicted by the interference rule."""
    epsilon: Tensor
    """float32[L, 1]: the ε that was used; 0 without a rule."""
    delta_r: Tensor
    """float32[L, 1]: the δ_r that was used; 0 without a rule."""

    def widened(self, slots: int) -> Found:
        """The same over more slots: padded slots have no neighbours and are never flagged."""
        more = slots - self.flagged.shape[1]
        near = self.near
        if near is not None:
            near = Near(pad(near.index, (0, 0, 0, more)), pad(near.exists, (0, 0, 0, more)))
        return Found(near, pad(self.flagged, (0, more)), self.epsilon, self.delta_r)

    def joined(self, other: Found, lanes: Tensor) -> Found:
        """The results of `other` in the lanes bool[L] (on CPU), and these results elsewhere."""
        chosen = lanes.to(self.flagged.device)[:, None]
        near = self.near
        if near is not None and other.near is not None:
            index = torch.where(chosen[..., None], other.near.index, near.index)
            near = Near(index, torch.where(chosen[..., None], other.near.exists, near.exists))
        pairs = ((self.flagged, other.flagged), (self.epsilon, other.epsilon), (self.delta_r, other.delta_r))
        return Found(near, *(torch.where(chosen, second, first) for first, second in pairs))


def needs_near(params: CrystalParams) -> bool:
    """Whether the downstream value, the backup, practice or novelty needs the states near a successor state."""
    valued = params.downstream == "neighbours" and any(floats(params.w3))
    return valued or bool(params.backup) or params.practice > 0 or params.novelty == "knn"


class AllPairs:
    """The search over all pairs. Lanes of different widths are searched one after another, so that each lane sees what
    it would see alone."""

    def __init__(self, params: CrystalParams, features: Features, scales: Scales, pairs: Pairs | None) -> None:
        self.params, self.features, self.scales, self.pairs = params, features, scales, pairs

    def search(self, view: View, lanes: Tensor) -> Found:
        """Results for the lanes bool[L] (on CPU)."""
        found: Found | None = None
        for width in view.width[lanes].unique().tolist():
            mine = lanes & (view.width == width)
            if width == view.slots and bool(mine.all()):
                return self._search(view)
            part = self._search(view.part(mine, width)).widened(view.slots)
            found = part if found is None else found.joined(part, mine)
        assert found is not None
        return found

    def _search(self, view: View) -> Found:
        params = self.params
        state, successor = self.features.seen(view)
        if not params.raw_distance:
            mean, deviation = moments(state, view.occupied, view.block)
            state, successor = (state - mean) / deviation, (successor - mean) / deviation
        near = None
        if needs_near(params):
            near = nearest(successor, state, view.occupied, params.k, self.pairs)
        if params.interference == "none":
            return Found(near, torch.zeros_like(view.occupied), self.scales.nothing, self.scales.nothing)
        experiences = self._experiences(view, state)
        epsilon, delta_r = self.scales.epsilon(experiences, self.pairs), self.scales.delta_r(view)
        flagged = contradicted(params.interference, experiences, epsilon, delta_r, self.pairs)
        return Found(near, flagged, epsilon, delta_r)

    def _experiences(self, view: View, state: Tensor) -> Experiences:
        fields = view.fields
        action = fields["action"].to(torch.float32).unsqueeze(-1).flatten(2)
        if not (self.features.discrete or self.params.raw_distance):
            mean, deviation = moments(action, view.occupied, view.block)
            action = (action - mean) / deviation
        return Experiences(
            state=state,
            action=action,
            reward=fields["reward"],
            birth=view.birth,
            phase=view.phase,
            unevaluated=view.unevaluated,
            context=fields["context"],
            discrete=self.features.discrete,
        )
