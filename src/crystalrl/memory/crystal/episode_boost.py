"""The discounted return of an episode raises the utility of its experiences (Algorithm 3)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from crystalrl.memory.crystal.external_episodes import PREFIX, ExternalEpisodes, Running
from crystalrl.memory.crystal.inputs import as_lanes
from crystalrl.memory.crystal.ledger import CrystalLedger
from crystalrl.memory.storage.external import AnyArena, ExternalArena
from crystalrl.memory.storage.spec import StorageSpec
from crystalrl.types import Transition

NEVER = torch.iinfo(torch.int64).max
COUNTED = {"previous": NEVER, "steps": 0, "total": 0, "largest": 0}
"""Tensors that files hold only with `CrystalParams.boost`, and their initial values."""


class Episodes:
    """The current episode of every environment: where it started and, with `boost`, its discounted return so far.

    Invariant: `total` [L, E] is the sum of γ^t r_t over the `steps` [L, E] of the current episode; `largest` [L, 1] is
    the largest |reward| so far. Tensors change in place, so that a CUDA graph can record it.
    """

    def __init__(self, spec: StorageSpec, boost: bool, external: bool) -> None:
        shape, device = (spec.lanes or 1, spec.envs), torch.device(spec.device)
        self.spec, self.boost, self.gamma = spec, boost, spec.gamma
        """`gamma` is the discount factor of the returns; a library that discounts outside the memory sets its own
        here."""
        self.started = torch.zeros(shape, dtype=torch.int64, device=device)
        """Number of the first experience of each environment's current episode."""
        self.previous = torch.full_like(self.started, NEVER)
        """The same for the episode before it."""
        self.steps = torch.zeros_like(self.started)
        self.total = torch.zeros_like(self.started, dtype=torch.float64)
        self.largest = torch.zeros_like(self.total[:, :1])
        self.external = ExternalEpisodes(spec.capacity) if boost and external else None

    def step(self, ledger: CrystalLedger, transition: Transition, valid: Tensor) -> Tensor:
        """Count a stored step of the environments valid bool[L, E]; an episode that ends is boosted.

        Returns which episodes ended, bool[L, E] or [1, 1].
        """
        terminated, truncated = (as_lanes(self.spec, flag) for flag in (transition.terminated, transition.truncated))
        ended = torch.logical_or(terminated, truncated)
        if self.boost:
            self._count(as_lanes(self.spec, transition.reward).to(torch.float32).to(torch.float64), valid)
            over = ended & valid
            if over.device.type != "cpu" or bool(over.any()):  # a CUDA graph cannot depend on values
                self._raise(ledger, over & (self.steps > 0), self.total, self.started)
                self._restart(over, ledger.number)
        return ended

    def _count(self, reward: Tensor, valid: Tensor) -> None:
        counted = torch.where(valid, reward, 0.0)
        self.total += self.gamma ** self.steps.to(torch.float64) * counted
        self.steps += valid
        self._see(counted)

    def _see(self, reward: Tensor) -> None:
        """Note the largest of rewards [L, M]."""
        torch.maximum(self.largest, reward.abs().amax(-1, keepdim=True).to(torch.float64), out=self.largest)

    def _raise(self, ledger: CrystalLedger, over: Tensor, returns: Tensor, first: Tensor) -> None:
        """Boost the experiences numbered `first` [L, E] or later of the environments over bool[L, E]."""
        share = self._share(returns)
        env = ledger.env.long() if over.shape[1] > 1 else torch.zeros_like(ledger.birth)
        mine = over.gather(1, env) & (ledger.phase > 0) & (ledger.birth >= first.gather(1, env))
        ledger.boost.copy_(torch.where(mine, share.gather(1, env), ledger.boost))

    def _share(self, returns: Tensor) -> Tensor:
        """float32[L, …]: returns over the largest possible one, R_max/(1 − γ), in [0, 1]."""
        most = self.largest.clamp_min(1e-12) / max(1 - self.gamma, 1e-12)
        return (returns / most).clamp(0, 1).to(torch.float32)

    def _restart(self, ended: Tensor, number: Tensor) -> None:
        """Begin new episodes where ended bool[L, E]; their experiences have numbers from number int64[L] on."""
        self.previous.copy_(torch.where(ended & (self.steps > 0), self.started, self.previous))
        self.started.copy_(torch.where(ended, number[:, None], self.started))
        self.steps.masked_fill_(ended, 0)
        self.total.masked_fill_(ended, 0.0)

    def end(self, ledger: CrystalLedger, ended: Tensor, returns: Tensor | None) -> None:
        """End the episodes of the environments bool[L, E]; their returns [L, E] are the counted ones if none are given.
        If an environment has made no step since its last episode, the given return belongs to that episode.
        """
        begun = self.steps > 0
        if self.boost and returns is not None:
            self._raise(ledger, ended, returns, torch.where(begun, self.started, self.previous))
        elif self.boost and self.external is None:
            self._raise(ledger, ended & begun, self.total, self.started)
        self._restart(ended, ledger.number)

    def commit(self, ledger: CrystalLedger, arena: AnyArena, slots: Tensor, ended: Tensor, env: Tensor | None) -> None:
        """Count experiences that another library stored in slots int64[M], in order; see `CrystalMemory.commit`."""
        if self.external is None or not isinstance(arena, ExternalArena):
            return
        reward = torch.as_tensor(arena.fetch(slots)["reward"], device="cpu").reshape(-1)
        self._see(reward[None])
        self.steps += len(slots)
        envs = [0] * len(slots) if env is None else env.tolist()
        steps = zip(envs, slots.tolist(), ledger.birth[0, slots].tolist(), reward.tolist(), strict=True)
        for step, over in zip(steps, ended.reshape(-1).tolist(), strict=True):
            self.external.add(*step, self.gamma)
            if over:
                self._raise_members(ledger, self.external.end(step[0]))

    def _raise_members(self, ledger: CrystalLedger, over: Running) -> None:
        slots, numbers = torch.tensor(over.members, device="cpu").unbind(1)
        kept = slots[(ledger.birth[0, slots] == numbers) & (ledger.phase[0, slots] > 0)]
        ledger.boost[0, kept] = self._share(torch.full_like(self.largest, over.total))[0]

    def tensors(self) -> dict[str, Tensor]:
        """Live tensors of the state."""
        counted = {f"episode.{name}": getattr(self, name) for name in COUNTED} if self.boost else {}
        return {"started": self.started, **counted}

    def state(self) -> dict[str, Tensor]:
        """The unfinished episodes in another library's storage."""
        return {} if self.external is None else self.external.state()

    def completed(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A state without the tensors of `state()`; one from before returns were counted gets new episodes."""
        if self.external is not None:
            self.external.refuse_impossible(state)
        own = {name: tensor for name, tensor in state.items() if not name.startswith(PREFIX)}
        for name, value in COUNTED.items() if self.boost else ():
            live = getattr(self, name)
            own.setdefault(f"crystal.episode.{name}", torch.full_like(live, value, device="cpu"))
        return own

    def load(self, state: Mapping[str, Tensor], arena: AnyArena) -> None:
        """Continue from a state, once its tensors are loaded."""
        if self.external is not None:
            self.external.load(state)
        elif self.boost and "crystal.episode.largest" not in state:
            self._see(arena.fields()["reward"])

    def clear(self) -> None:
        self.started.zero_()
        for name, value in COUNTED.items():
            getattr(self, name).fill_(value)
        self.abandon()

    def abandon(self) -> None:
        """Forget the unfinished episodes in another library's storage: their environments were reset."""
        if self.external is not None:
            self.external.running.clear()
