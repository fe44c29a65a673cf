"""Time of a gradient step of Stable-Baselines3 with its own buffer and with ours, in interleaved rounds.

Networks 256 × 256, batch 256, 100,000 experiences of 17 numbers, half of them crystals. Consolidation is timed
separately, in a smaller memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

import numpy as np

from benchmarks.harness.pages import measured_on, table
from benchmarks.harness.results import Part, Result, Setting, in_parts, machine
from benchmarks.harness.timing import Job, clock, interleaved, medians, ratio, seconds
from crystalrl import Transition

ENVS, OBS, ACTION = 100, 17, 6
BUFFERS = {"stock": None, "prioritized": "PrioritizedReplayBuffer", "crystal": "CrystalReplayBuffer"}
ALGORITHMS = ("SAC", "TD3", "DQN", "TQC", "QRDQN")


def model(name: str, buffer: str, slots: int, layers: list[int], device: str = "cpu") -> Any:
    """A model with a full buffer. Its many environments, of which only the spaces count, fill it quickly."""
    import gymnasium as gym
    import sb3_contrib
    import stable_baselines3
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.vec_env import DummyVecEnv

    from crystalrl.integrations import sb3

    discrete = "DQN" in name
    env = gym.Env[Any, Any]()
    env.observation_space = gym.spaces.Box(-10, 10, (OBS,), np.float32)
    env.action_space = gym.spaces.Discrete(ACTION) if discrete else gym.spaces.Box(-1, 1, (ACTION,), np.float32)
    kind = getattr(stable_baselines3, name, None) or getattr(sb3_contrib, name)
    made = kind(
        "MlpPolicy", DummyVecEnv([lambda: copy(env)] * ENVS), buffer_size=slots, seed=0, device=device,
        replay_buffer_class=BUFFERS[buffer] and getattr(sb3, BUFFERS[buffer]),
        policy_kwargs={"net_arch": layers, **({"n_quantiles": 50} if name == "QRDQN" else {})},
    )  # fmt: skip
    made._logger = Logger(None, [])
    if buffer != "stock":
        made.replay_buffer.attach(made)
    fill(made.replay_buffer, slots // ENVS, discrete, crystal=buffer == "crystal")
    return made


def fill(buffer: Any, steps: int, discrete: bool, crystal: bool) -> None:
    rng, shape = np.random.default_rng(0), (steps, ENVS)
    observations = rng.normal(size=(steps + 1, ENVS, OBS)).astype(np.float32)
    actions = rng.integers(0, ACTION, shape) if discrete else rng.uniform(-1, 1, (*shape, ACTION)).astype(np.float32)
    rewards, c = rng.normal(size=shape).astype(np.float32), rng.choice([0.1, 0.5, 0.9], shape, p=[0.375, 0.125, 0.5])
    for k in range(steps):
        obs, next_obs, done = observations[k], observations[k + 1], np.full(ENVS, k % 200 == 199)
        if crystal:
            step = Transition(obs, actions[k], rewards[k], next_obs, done)
            buffer.memory.add(step, crystallization=c[k].tolist())
        else:
            buffer.add(obs, next_obs, actions[k], rewards[k], done, [{}] * ENVS)


def compare(name: str, slots: int, rounds: int, steps: int = 8) -> Result:
    """Milliseconds of a gradient step with each buffer, and the ratio to SB3's own in the same round."""
    models = {buffer: model(name, buffer, slots, [256, 256]) for buffer in BUFFERS}
    jobs = {
        buffer: Job(lambda one=one: one.train(gradient_steps=steps, batch_size=256))  # type: ignore[misc]
        for buffer, one in models.items()
    }
    times = interleaved(jobs, rounds, warmup=3)
    ratios = {buffer: ratio(values, times["stock"]) for buffer, values in times.items()}
    return {"milliseconds": medians(times, 1e-3 * steps), "ratio": ratios}


def consolidation(slots: int) -> Result:
    """Seconds of the second consolidation of SAC's memory, and the environment steps between two of them."""
    buffer = model("SAC", "crystal", slots, [256, 256]).replay_buffer
    buffer.consolidate()
    return {"slots": slots, "seconds": seconds(buffer.consolidate, clock()), "every": buffer.params.interval(slots)}


def measure(setting: Setting) -> Iterator[Result]:
    slots, rounds, fewer = (2_000, 1, 2_000) if setting.quick else (100_000, 11, 10_000)
    parts: dict[str, Part] = {
        "algorithms": lambda: {
            "slots": slots,
            "algorithms": {name: compare(name, slots, rounds) for name in ALGORITHMS},
            "machine": machine("stable-baselines3"),
        },
        "consolidation": lambda: {"consolidation": consolidation(fewer)},
    }
    return in_parts(setting, parts)


def block(result: Result) -> str:
    rows = []
    for name, each in result["algorithms"].items():
        more = (f"{each['ratio'][buffer] - 1:+.1%}" for buffer in ("prioritized", "crystal"))
        rows.append([name, f"{each['milliseconds']['stock']:.2f} ms", *more])
    head = ["gradient step", "SB3's own", "`PrioritizedReplayBuffer`", "`CrystalReplayBuffer`"]
    late = result["consolidation"]
    text = (
        f"{result['slots']:,} experiences, networks 256 × 256, batch 256, processor time in interleaved rounds. "
        f"A consolidation comes on top: {late['seconds']:.1f} s at {late['slots']:,} experiences, once in "
        f"{late['every']:,} environment steps; its cost grows with the square of the memory, above 16,384 (with faiss) "
        f"about linearly. {measured_on(result['machine'])}"
    )
    return f"{table(head, rows)}\n\n{text}"
