"""Neural episodic control (Pritzel et al. 2017): Q values are read from a dictionary of states per action.

A network embeds an observation as a key. One loss trains the network, the keys and the values. Writing, which
`crystalrl.methods.nec` does for every stored experience, brings new returns into the values at a high rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import (
    Agent,
    AgentParams,
    Hooks,
    Part,
    Spaces,
    Update,
    inputs_of,
    prefixed,
    require,
    require_tensor,
)
from crystalrl.agents.dictionary import Dictionaries
from crystalrl.agents.exploration import action_count, epsilon_greedy
from crystalrl.agents.networks import LaneNetwork
from crystalrl.lanes import PerLane
from crystalrl.losses import weighted_mean
from crystalrl.random import Streams
from crystalrl.types import Batch, Evaluation


@dataclass(frozen=True)
class NECParams(AgentParams):
    """Settings of neural episodic control; `learning_rate` may be one number per lane."""

    width: int = 128
    depth: int = 2
    learning_rate: PerLane = 1e-3
    """Learning rate of Adam for the network, and of plain gradient descent for keys and values."""
    n_step: int = 10
    """Number of rewards before bootstrapping; 100 in Pritzel et al. 2017, for games of thousands of steps."""
    key: int = 32
    """Length of a key."""
    entries: int = 1000
    """Keys per action; 500,000 in Pritzel et al. 2017."""
    neighbours: int = 50
    """p: keys that a value is read from (Pritzel et al. 2017)."""
    delta: float = 1e-3
    """δ of the kernel (Pritzel et al. 2017)."""
    write_rate: float = 0.1
    """Step of the value of a key that is written again (Pritzel et al. 2017)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        rules = {name: (getattr(self, name) >= 1, "a whole number ≥ 1") for name in ("key", "entries", "neighbours")}
        rules |= {"delta": (self.delta > 0, "a number > 0")}
        rules |= {"write_rate": (0 < self.write_rate <= 1, "a number in (0, 1]")}
        rules |= {"multi_head": (not self.multi_head, "false"), "columns": (self.columns == 1, "1")}
        require(self, rules)


class NEC(Agent):
    """L learners in parallel: the embedding `theta` [L, P], and a dictionary per action."""

    params: NECParams

    def __init__(self, spaces: Spaces, params: NECParams, streams: Streams) -> None:
        self.params, self.streams, self.actions = params, streams, action_count(spaces)
        hidden = [params.width] * params.depth
        self.network = LaneNetwork(spaces.obs, hidden, params.key, layer_norm=params.layer_norm)
        self.anchors = {"q": (self.actions,)}
        self.theta = self.network.initial(streams).requires_grad_()
        self.optimiser = params.adam(self.theta)
        shape = (len(self.theta), self.actions, params.entries)
        self.dictionary = Dictionaries(shape, params.key, params.neighbours, params.delta, streams.device)
        self.parts = {"q": Part(self.network, self.theta, self.optimiser, inputs_of)}

    def q(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Q values [L, B, A] of observations [L, B, …], and the keys they were read from, int64[L, A, B, p]."""
        return self.dictionary.read(self.network(self.theta, obs))

    @torch.no_grad()
    def greedy(self, obs: Tensor, context: Tensor | None = None) -> Tensor:
        """Best actions int64[L, E] for observations [L, E, …]."""
        return self.q(obs)[0].argmax(-1)

    @torch.no_grad()
    def act(self, obs: Tensor, epsilon: Tensor, context: Tensor | None = None) -> Tensor:
        """Actions int64[L, E]: random with probability epsilon, else greedy."""
        return epsilon_greedy(self.greedy(obs), epsilon, self.actions, self.streams)

    @torch.no_grad()
    def td_target(self, batch: Batch) -> Tensor:
        """[L, B]: the n-step return + discount · max Q(s′)."""
        return batch.reward + batch.discount * self.q(require_tensor(batch.next_obs))[0].amax(-1)

    def _td_errors(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Q values [L, B, A], TD errors [L, B], and the keys that were read."""
        q, near = self.q(require_tensor(batch.obs))
        return q, self.td_target(batch) - q.gather(-1, batch.action.unsqueeze(-1)).squeeze(-1), near

    def loss_of(self, batch: Batch, names: Sequence[str]) -> Tensor:
        return weighted_mean(0.5 * self._td_errors(batch)[1].square(), batch.weight)

    def outputs(self, batch: Batch) -> dict[str, Tensor]:
        return {"q": self.q(require_tensor(batch.obs))[0]}

    def update(self, batch: Batch, method: Hooks | None = None) -> Update:
        """One gradient step of network, keys and values per lane."""
        _, td_error, near = self._td_errors(batch)
        loss = weighted_mean(0.5 * td_error.square(), batch.weight)
        stored = (self.dictionary.keys, self.dictionary.values)
        theta, *gradients = torch.autograd.grad(loss.sum(), (self.theta, *stored))
        self.optimiser.step(self.theta, self.edited(method, {"q": theta})["q"])
        with torch.no_grad():
            for tensor, gradient in zip(stored, gradients, strict=True):
                tensor.sub_(self.optimiser.rate.view(-1, *[1] * (tensor.dim() - 1)) * gradient)
        self.dictionary.mark_read(near, self.optimiser.steps)
        return Update(td_error.detach(), loss.detach())

    @torch.no_grad()
    def write(self, batch: Batch, valid: Tensor) -> None:
        """Write experiences [L, E] into the dictionaries, one after another, where `valid` bool[L, E]."""
        target, h = self.td_target(batch), self.network(self.theta, require_tensor(batch.obs))
        for e in range(batch.reward.shape[1]):
            entry = (h[:, e], batch.action[:, e], target[:, e], valid[:, e])
            self.dictionary.write(*entry, self.optimiser.steps, self.params.write_rate)

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Evaluation:
        """TD errors [L, B] and {"q": [L, B, A]}."""
        q, td_error, _ = self._td_errors(batch)
        return Evaluation(td_error, {"q": q})

    def tensors(self) -> dict[str, Tensor]:
        own = {f"dictionary.{name}": tensor for name, tensor in self.dictionary.tensors().items()}
        return {"theta": self.theta, **own, **prefixed("optimiser", self.optimiser)}
