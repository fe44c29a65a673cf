"""Recorded data (Minari): load a dataset into a memory, let it crystallize with a fitted critic, export it ranked by c.

memory = memory_of(minari.load_dataset("mine-v0"))
for _ in range(20):
    memory.consolidate(evaluate)
best = ranked(memory)
export(memory, "mine/kept-v0", like=dataset, top=1_000)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl.integrations._common import Crystallizing
from crystalrl.memory import CrystalMemory
from crystalrl.memory.storage.spec import from_spaces
from crystalrl.packages import require
from crystalrl.params import CrystalParams
from crystalrl.params_checks import floats
from crystalrl.types import Transition

require("crystalrl.integrations.minari", "minari", extra="minari")

import minari  # noqa: E402
from minari.data_collector import EpisodeBuffer  # noqa: E402

STEP_INFOS = ("c", "utility", "phase")
"""Infos of every exported step."""


def memory_of(
    dataset: Any,
    params: CrystalParams | None = None,
    *,
    anchor: Mapping[str, tuple[int, ...]] | None = None,
    **storage: Any,
) -> CrystalMemory:
    """A memory that holds a whole dataset. Every phase has room for all of it, so nothing is evicted.

    No environment runs, so time is counted in consolidations: each is one unit. `params`: None means
    `CrystalParams()`, without anchors unless `anchor` is given; phase capacities and clock are replaced.
    """
    chosen = replace(params or CrystalParams(), capacity=(1.0, 1.0, 1.0), clock="calls")
    spaces = from_spaces(dataset.observation_space, dataset.action_space)
    memory = CrystalMemory(3 * int(dataset.total_steps) + 3, params=chosen, anchor=anchor, **{**spaces, **storage})
    fill(memory, dataset)
    return memory


def demonstration(params: CrystalParams) -> float:
    """Initial c of a demonstration: τ_C, the border of glass and crystal, as the paper proposes."""
    return max(floats(params.tau_C))


def fill(memory: Crystallizing, dataset: Any, *, demonstrations: bool = False) -> Tensor:
    """Store a dataset's transitions in the order in which they were recorded; returns their slots int64[M].

    With `demonstrations` they start as glass with c = τ_C: those of any use are crystals after the first consolidation.
    They must fit into the crystal store.
    """
    if memory.spec.lanes is not None or memory.spec.envs != 1:
        raise ValueError(f"memory: wanted one lane and one environment, got {memory.spec.lanes} and {memory.spec.envs}")
    count, c = int(dataset.total_steps), demonstration(memory.params) if demonstrations else None
    room = memory.params.caps(memory.capacity)[2]
    if demonstrations and count > room:
        raise ValueError(f"demonstrations: wanted at most the {room} steps that the crystal store holds, got {count}")
    slots = [
        memory.add(step, crystallization=c).reshape(-1)
        for step in transitions(dataset, isinstance(memory.spec.action, int))
    ]
    return torch.cat(slots) if slots else torch.zeros(0, dtype=torch.int64)


def transitions(dataset: Any, discrete: bool) -> Iterator[Transition]:
    """The steps of a dataset. An episode whose recording stops without a flag counts as truncated."""
    for episode in dataset.iterate_episodes():
        terminated, truncated = episode.terminations.copy(), episode.truncations.copy()
        if len(episode) and not (terminated[-1] or truncated[-1]):
            truncated[-1] = True
        for k in range(len(episode)):
            action = int(episode.actions[k]) if discrete else episode.actions[k]
            yield Transition(
                _at(episode.observations, k),
                action,
                float(episode.rewards[k]),
                _at(episode.observations, k + 1),
                bool(terminated[k]),
                bool(truncated[k]),
            )


def _at(observations: Any, k: int) -> Any:
    if isinstance(observations, dict):
        return {name: part[k] for name, part in observations.items()}
    return observations[k]


def ranked(memory: Crystallizing, phase: str | None = None) -> dict[str, Any]:
    """`memory.experiences` sorted by c, highest first."""
    found = memory.experiences(phase)
    order = torch.from_numpy(np.lexsort((found["number"].numpy(), -found["c"].cpu().numpy())))
    return {name: _take(part, order) for name, part in found.items()}


def _take(part: Any, order: Tensor) -> Any:
    if isinstance(part, dict):
        return {name: values[order] for name, values in part.items()}
    return None if part is None else part[order]


def export(
    memory: Crystallizing, dataset_id: str, *, like: Any, phase: str | None = None, top: int | None = None, **about: Any
) -> Any:
    """Write experiences (of a phase; the `top` by c) as a Minari dataset with the spaces and environment of `like`.

    Consecutive steps stay one episode; where the next step is not exported, the episode is truncated. Infos hold c,
    utility and phase of every step, and one more entry than steps, as Minari requires: NaN (phase 0). `about` is passed
    to Minari: author, description, …
    """
    if memory.spec.n_step > 1:
        raise ValueError(f"n_step: wanted 1, since n-step experiences cannot be exported, got {memory.spec.n_step}")
    found = ranked(memory, phase)
    kept = torch.arange(len(found["c"]))[:top]
    kept = kept[found["number"][kept].argsort()]
    if not len(kept):
        raise ValueError(f"export: wanted at least one experience, got none of phase {phase}")
    arrays = {name: _numpy(_take(part, kept)) for name, part in found.items() if part is not None}
    return minari.create_dataset_from_buffers(
        dataset_id,
        buffer=[_episode(arrays, *span) for span in _spans(arrays)],
        env=like.env_spec,
        observation_space=like.observation_space,
        action_space=like.action_space,
        jpeg_encoding=False,  # lossless, unlike Minari's default
        **about,
    )


def _numpy(part: Any) -> Any:
    return (
        {name: values.cpu().numpy() for name, values in part.items()} if isinstance(part, dict) else part.cpu().numpy()
    )


def _spans(arrays: Mapping[str, Any]) -> list[tuple[int, int]]:
    """(first, last + 1) of each run of consecutive steps of one episode."""
    ended: NDArray[np.bool_] = (arrays["terminated"] | arrays["truncated"])[:-1]
    cut = (np.diff(arrays["number"]) != 1) | ended
    edges = [0, *(np.flatnonzero(cut) + 1).tolist(), len(arrays["number"])]
    return list(pairwise(edges))


def _episode(arrays: Mapping[str, Any], first: int, end: int) -> EpisodeBuffer:
    steps = slice(first, end)
    truncated = arrays["truncated"][steps].copy()
    truncated[-1] |= not arrays["terminated"][end - 1]
    infos = {name: np.append(arrays[name][steps], 0 if name == "phase" else np.nan) for name in STEP_INFOS}
    return EpisodeBuffer(
        observations=_joined(arrays["obs"], arrays["next_obs"], first, end),
        actions=arrays["action"][steps],
        rewards=arrays["reward"][steps],
        terminations=arrays["terminated"][steps],
        truncations=truncated,
        infos=infos,
    )


def _joined(obs: Any, following: Any, first: int, end: int) -> Any:
    if isinstance(obs, dict):
        return {name: _joined(obs[name], following[name], first, end) for name in obs}
    return np.concatenate([obs[first:end], following[end - 1 : end]])
