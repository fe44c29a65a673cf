"""What the replay buffers for Stable-Baselines3 share: experiences in, weighted batches out, save and load."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer, ReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer
from torch import Tensor

from crystalrl.integrations.sb3.hooks import Hooks
from crystalrl.integrations.sb3.learners import Learner, learner_of
from crystalrl.memory import ReplayMemory, load_memory
from crystalrl.memory.storage.spec import from_spaces
from crystalrl.types import Batch, Evaluation, Transition

HER_ONLY = ("n_sampled_goal", "goal_selection_strategy", "copy_info_dict")
NO_HER = "goal relabelling (HerReplayBuffer) rewrites stored experiences; a memory that weighs and keeps them by what "
NO_HER += "they were cannot be combined with it"


class MemoryReplayBuffer(ReplayBuffer):
    """What both buffers share. The memory is made when a model is attached (`Consolidate` does that), because what it
    stores depends on the algorithm; until then the buffer is empty and refuses experiences.

    Options beyond those of SB3's own buffer: `n_steps` and `gamma` (n-step returns, as in SB3's NStepReplayBuffer) and
    `seed` (None: drawn from NumPy's generator, which SB3 seeds with the model's seed).
    """

    memory: ReplayMemory | None = None
    hooks: Hooks | None = None
    learner: Learner | None = None

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        n_steps: int = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        **unknown: Any,
    ) -> None:
        _refuse(type(self), optimize_memory_usage, unknown)
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs)
        del self.pos, self.full  # this is no ring: better no answer than a wrong one
        self.optimize_memory_usage, self.handle_timeout_termination = False, handle_timeout_termination
        self.n_steps, self.gamma = n_steps, gamma
        self.seed = int(np.random.randint(2**31)) if seed is None else seed  # noqa: NPY002 - SB3 seeds this one
        self._updates = 0

    def __init_subclass__(cls) -> None:
        if HerReplayBuffer in cls.__mro__:
            raise TypeError(f"{cls.__name__}: {NO_HER}")

    def _storage(self) -> dict[str, Any]:
        """Arguments of the memory. With one step γ stays with the model, so the stored discount is 1 − terminated."""
        options: dict[str, Any] = {**from_spaces(self.observation_space, self.action_space)}
        shapes: Any = self.obs_shape  # SB3 gives a discrete observation an axis
        options["obs"] = dict(shapes) if isinstance(shapes, Mapping) else shapes
        if not isinstance(self.action_space, spaces.Discrete):
            options["action"] = (self.action_dim,)
        steps = {"n_step": self.n_steps, "gamma": self.gamma if self.n_steps > 1 else 1.0}
        return {**options, **steps, "envs": self.n_envs, "seed": self.seed, "deliver": self.device}

    def _make(self, learner: Learner) -> ReplayMemory:
        raise NotImplementedError

    def _report(self, learner: Learner) -> bool:
        """Whether |δ| from the gradients goes into the memory."""
        raise NotImplementedError

    def attach(self, model: Any) -> None:
        """Let weights and anchors act on this model's gradients. `Consolidate` calls it whenever learning begins."""
        learner = learner_of(model)
        compiled = getattr(learner.critic, "_compiled_call_impl", None) or hasattr(learner.critic, "_orig_mod")
        if compiled:
            raise ValueError("critic: wanted a plain module, got a compiled one, which may bypass the hooks")
        if model.n_steps > 1 and self.n_steps != model.n_steps:
            wanted = f"replay_buffer_kwargs={{'n_steps': {model.n_steps}, 'gamma': {model.gamma}}}"
            raise ValueError(f"n_steps: wanted {wanted}, as the model has it, got {self.n_steps}")
        if self.n_steps > 1 and self.gamma != model.gamma:
            raise ValueError(f"gamma: wanted the model's {model.gamma} for n-step returns, got {self.gamma}")
        if self.memory is None:
            self.memory = self._make(learner)
        self._refuse_other(self.memory, learner)
        self.memory.deliver = torch.device(self.device)
        self.model, self.learner = model, learner
        self._updates = model._n_updates
        self.hooks = Hooks(learner, self._learn if self._report(learner) else None)

    def _learn(self, index: Tensor, error: Tensor) -> None:
        self.held.update(index, error)

    @property
    def held(self) -> ReplayMemory:
        """The memory; an error while there is none."""
        if self.memory is None:
            raise RuntimeError(
                f"{type(self).__name__}: wanted a model, got none: pass callback=Consolidate() to learn, or call "
                "model.replay_buffer.attach(model)"
            )
        return self.memory

    def size(self) -> int:
        """Experiences stored, of all environments."""
        return 0 if self.memory is None else len(self.memory)

    def reset(self) -> None:
        if self.memory is not None:
            self.memory.clear()

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: list[dict[str, Any]]) -> None:
        memory = self.held
        ended = np.asarray(done, dtype=bool)
        truncated = np.zeros_like(ended)
        if self.handle_timeout_termination and ended.any():
            truncated = ended & np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos])
        obs, next_obs = self._shaped(obs), self._shaped(next_obs)
        if not isinstance(self.action_space, spaces.Discrete):
            action = np.reshape(action, (self.n_envs, self.action_dim))
        if memory.windows is not None:
            self._close_abandoned(memory, obs)
        memory.add(Transition(obs, action, reward, next_obs, ended & ~truncated, truncated))

    def _shaped(self, obs: Any) -> Any:
        if isinstance(obs, Mapping):
            shapes: Any = self.obs_shape
            return {name: np.reshape(part, (self.n_envs, *shapes[name])) for name, part in obs.items()}
        return np.reshape(obs, (self.n_envs, *self.obs_shape))

    def _close_abandoned(self, memory: ReplayMemory, obs: Any) -> None:
        """End the n-step windows of environments that were reset amid an episode (`learn` does that): there the
        observation is not the one the last step led to."""
        assert memory.windows is not None
        last = memory.arena.layout.torch_views(memory.windows.last[0])
        broken = torch.zeros(self.n_envs, dtype=torch.bool)
        for name, part in obs.items() if isinstance(obs, Mapping) else [("", obs)]:
            stored = last[f"next_obs.{name}" if name else "next_obs"].cpu()
            differs = stored != torch.as_tensor(part).to(stored.dtype)
            broken |= differs.flatten(1).any(1)
        broken &= (memory.windows.length[0] > 0).any(-1).cpu()
        if bool(broken.any()):
            memory.end_episode(broken.to(memory.device) if self.n_envs > 1 else broken[0])

    def sample(self, batch_size: int, env: Any = None) -> ReplayBufferSamples:
        memory, hooks = self.held, self.hooks
        if hooks is None:
            raise RuntimeError(f"{type(self).__name__}: wanted a model to weigh the loss of: call attach(model)")
        if not hooks.used and self.model._n_updates > self._updates + 1:
            raise RuntimeError(
                "the critic was trained on other tensors than sample() gave, so weights were lost: wanted the "
                f"training loop of SB3, got {type(self.model).__name__}.train of another kind"
            )
        batch = memory.sample(batch_size)
        samples = self.samples(batch, env)
        self._before(batch, samples)
        hooks.arm(batch, samples)
        return samples

    def _before(self, batch: Batch, samples: ReplayBufferSamples) -> None:
        """A chance to look at a drawn batch before it is trained on."""

    def samples(self, batch: Batch, env: Any = None) -> ReplayBufferSamples:
        """A batch as SB3 wants it; `env` is the VecNormalize around the training environments, if there is one."""
        action = batch.action if batch.action.dim() > 1 else batch.action.unsqueeze(1)
        reward, discount = batch.reward.unsqueeze(1), batch.discount.unsqueeze(1)
        obs: Any = batch.obs
        next_obs: Any = batch.next_obs
        if env is not None:
            obs, next_obs = self._normalised(obs, env), self._normalised(next_obs, env)
            normal = env.normalize_reward(reward.cpu().numpy()).astype(np.float32)
            reward = torch.as_tensor(normal, device=reward.device)
        if self.n_steps == 1:
            return ReplayBufferSamples(obs, action, next_obs, 1 - discount, reward)
        return ReplayBufferSamples(obs, action, next_obs, (discount == 0).float(), reward, discount)

    @staticmethod
    def _normalised(obs: Any, env: Any) -> Any:
        if isinstance(obs, Mapping):
            device = next(iter(obs.values())).device
            normal = env.normalize_obs({name: part.cpu().numpy() for name, part in obs.items()})
            return {name: torch.as_tensor(part, device=device) for name, part in normal.items()}
        return torch.as_tensor(env.normalize_obs(obs.cpu().numpy()), device=obs.device)

    def evaluate(self, batch: Batch) -> Evaluation:
        """TD errors and outputs of the attached model, now."""
        assert self.learner is not None
        with torch.no_grad():
            return self.learner.evaluate(self.samples(batch, self.model.get_vec_normalize_env()))

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one file, without pickle: loaded, the next batches are those that would have come."""
        self.held.save(path)

    def load(self, path: str | PathLike[str]) -> None:
        """Continue from a file of `save`, with the parameters it was written with."""
        memory = load_memory(path)
        wanted = self._storage() | {"capacity": self.buffer_size}
        for name in ("capacity", "obs", "action", "obs_dtype", "action_dtype", "envs", "n_step", "gamma"):
            if name in wanted and wanted[name] != getattr(memory.spec, name):
                raise ValueError(f"{path}: wanted {name} {wanted[name]}, got {getattr(memory.spec, name)}")
        self._refuse_other(memory, self.learner)
        memory.deliver = torch.device(self.device)
        self.memory = memory

    def _refuse_other(self, memory: ReplayMemory, learner: Learner | None) -> None:
        """Raise if a memory is not of this buffer's kind, or not for this learner."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """For SB3's `save_replay_buffer`, which pickles: everything but the model."""
        return {name: value for name, value in self.__dict__.items() if name not in ("hooks", "model", "learner")}


def _refuse(kind: type, optimize_memory_usage: bool, unknown: Mapping[str, Any]) -> None:
    if optimize_memory_usage:
        raise ValueError(
            "optimize_memory_usage: wanted False, got True: it keeps next observations in the following slot, and here "
            "experiences do not lie in the order they came"
        )
    if any(name in HER_ONLY for name in unknown):
        raise ValueError(f"{', '.join(unknown)}: {NO_HER}")
    if unknown:
        raise TypeError(f"{kind.__name__}: got unknown arguments {', '.join(unknown)}")
