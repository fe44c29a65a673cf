"""The buffers of the integrations, each with a small model of its library."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from tests.peers.native import ACTIONS, PARAMS, Drawn, Subject


class Blank(gym.Env[Any, Any]):
    """An environment with given spaces that is never stepped."""

    action_space = gym.spaces.Discrete(ACTIONS)

    def __init__(self, observation_space: gym.Space[Any]) -> None:
        self.observation_space = observation_space


class Sb3(Subject):
    buffer: str

    def build(self) -> None:
        from stable_baselines3 import DQN

        from crystalrl.integrations import sb3

        low, high = (0, 100) if self.dtype.kind in "uib" else (-np.inf, np.inf)
        space = gym.spaces.Box(low, high, self.shape, self.dtype.type)
        kwargs = {
            "seed": 3,
            "n_steps": self.n_step,
            **({"params": PARAMS} if self.buffer == "CrystalReplayBuffer" else {}),
        }
        options = {
            "buffer_size": self.slots,
            "gamma": self.gamma,
            "policy_kwargs": {"net_arch": [4], "normalize_images": False},
        }
        buffer = getattr(sb3, self.buffer)
        self.model = DQN("MlpPolicy", Blank(space), replay_buffer_class=buffer, replay_buffer_kwargs=kwargs, **options)
        self.own = self.model.replay_buffer
        self.own.attach(self.model)  # type: ignore[union-attr]

    def put(self, obs: NDArray[Any], reward: float, next_obs: NDArray[Any], ends: bool, cut: bool = False) -> None:
        before, after = obs.astype(self.dtype)[None], next_obs.astype(self.dtype)[None]
        action = np.array([[int(reward) % ACTIONS]])
        info = [{"TimeLimit.truncated": cut}]
        self.own.add(before, after, action, np.array([reward]), np.array([ends or cut]), info)  # type: ignore[union-attr]

    def draw(self, size: int) -> Drawn:
        s: Any = self.own.sample(size)  # type: ignore[union-attr]
        b = self.own.hooks.batch  # type: ignore[union-attr]
        discount = (1 - s.dones[:, 0]) * (self.gamma if s.discounts is None else s.discounts[:, 0])
        given = (s.observations, s.rewards[:, 0], s.next_observations, b.weight, b.index, discount)
        return Drawn(*(x.numpy() for x in given), whole=b)

    def copied(self, copy: Callable[[Any], Any]) -> Subject:
        own = copy(self.own)
        own.attach(self._model_copy())
        copied: Subject = self._other(own=own)
        return copied

    def _model_copy(self) -> Any:
        model = deepcopy(self.model.policy)
        twin = object.__new__(type(self.model))
        twin.__dict__ |= self.model.__dict__ | {
            "policy": model,
            "q_net": model.q_net,
            "q_net_target": model.q_net_target,
        }
        return twin

    @property
    def memory(self) -> Any:
        return self.own.memory  # type: ignore[union-attr]


class Sb3Crystal(Sb3):
    buffer = "CrystalReplayBuffer"


class Sb3Prioritized(Sb3):
    buffer = "PrioritizedReplayBuffer"


class Tianshou(Subject):
    def build(self) -> None:
        from tianshou.algorithm.modelfree.dqn import DQN, DiscreteQLearningPolicy
        from tianshou.algorithm.optim import AdamOptimizerFactory
        from tianshou.utils.net.common import Net

        from crystalrl.integrations.tianshou import CrystalReplayBuffer

        net = Net(state_shape=self.shape, action_shape=ACTIONS, hidden_sizes=[4])
        policy = DiscreteQLearningPolicy(model=net, action_space=gym.spaces.Discrete(ACTIONS))
        self.algorithm = DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-3), target_update_freq=10)
        self.own = CrystalReplayBuffer(self.slots, 1, PARAMS, seed=3)
        self.own.attach(self.algorithm)

    def put(self, obs: NDArray[Any], reward: float, next_obs: NDArray[Any], ends: bool, cut: bool = False) -> None:
        from tianshou.data import Batch

        before, after = obs.astype(self.dtype), next_obs.astype(self.dtype)
        given = Batch(obs=before, act=int(reward) % ACTIONS, rew=reward, obs_next=after, info={})
        given.terminated, given.truncated = ends, cut
        self.own.add(given)

    def draw(self, size: int) -> Drawn:
        s, index = self.own.sample(size)
        return Drawn(s.obs, s.rew, s.obs_next, s.weight, index, whole=self.own._drawn)

    def copied(self, copy: Callable[[Any], Any]) -> Subject:
        own = copy(self.own)
        own.attach(deepcopy(self.algorithm))
        copied: Subject = self._other(own=own)
        return copied

    @property
    def memory(self) -> Any:
        return self.own.memory


class TorchRL(Subject):
    def build(self) -> None:
        from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
        from torchrl.modules import QValueActor
        from torchrl.objectives import DQNLoss, SoftUpdate

        from crystalrl.integrations.torchrl import CrystalSampler, MemoryLoss

        network = torch.nn.Sequential(Flattened(self.shape), torch.nn.Linear(int(np.prod(self.shape)), ACTIONS))
        actor = QValueActor(network, in_keys=["observation"], action_space="categorical")
        inner = DQNLoss(actor, action_space="categorical", delay_value=True)
        SoftUpdate(inner, eps=0.99)
        self.loss = MemoryLoss(inner)
        self.sampler = CrystalSampler(self.loss, PARAMS, seed=3)
        storage = LazyTensorStorage(self.slots)
        self.own = TensorDictReplayBuffer(storage=storage, sampler=self.sampler, writer=self.sampler.writer)

    def put(self, obs: NDArray[Any], reward: float, next_obs: NDArray[Any], ends: bool, cut: bool = False) -> None:
        from tensordict import TensorDict

        before, after = (torch.as_tensor(x.astype(self.dtype)) for x in (obs, next_obs))
        flags = {"terminated": torch.tensor([ends]), "done": torch.tensor([ends or cut])}
        following = {"observation": after, "reward": torch.tensor([reward]), **flags}
        action = torch.tensor(int(reward) % ACTIONS)
        self.own.add(TensorDict({"observation": before, "action": action, "next": TensorDict(following, [])}, []))

    def draw(self, size: int) -> Drawn:
        self.loss.updates += 1  # as if the batch before had been trained on
        s = self.own.sample(size)
        given = (
            s["observation"],
            s["next", "reward"][:, 0],
            s["next", "observation"],
            s["memory", "weight"],
            s["index"],
        )
        return Drawn(*(x.numpy() for x in given), whole=s)

    def report(self, drawn: Drawn, errors: NDArray[Any]) -> None:
        self.own.sampler.update_priority(drawn.whole["index"], torch.as_tensor(errors))

    def copied(self, copy: Callable[[Any], Any]) -> Subject:
        own, loss = copy(self.own), deepcopy(self.loss)
        own.sampler.attach(loss)
        copied: Subject = self._other(own=own, loss=loss, sampler=own.sampler)
        return copied

    @property
    def memory(self) -> Any:
        return self.own.sampler.memory


class Flattened(torch.nn.Module):
    """Observations of a shape and any dtype as rows of floats."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.axes = len(shape)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return obs.float().flatten(obs.dim() - self.axes)
