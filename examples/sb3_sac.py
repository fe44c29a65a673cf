"""SAC with a crystal memory: it differs from plain Stable-Baselines3 by the import and two arguments.

    python examples/sb3_sac.py --steps 10000

Then it saves model and memory, loads them as a new process would, and continues.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from stable_baselines3 import SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

from crystalrl.integrations.sb3 import Consolidate, CrystalReplayBuffer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=Path("runs/sb3_sac"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    env, task = make_vec_env("Pendulum-v1", seed=0), make_vec_env("Pendulum-v1", 10, seed=1)
    model = SAC(
        "MlpPolicy",
        env,
        replay_buffer_class=CrystalReplayBuffer,
        buffer_size=2_000,
        learning_rate=1e-3,
        batch_size=64,
        policy_kwargs={"net_arch": [64, 64]},
        seed=0,
    )
    callback = Consolidate({"pendulum": task}, evaluate_every=max(options.steps // 5, 1), episodes=10)
    model.learn(options.steps, callback=callback)
    for step, scores in callback.scores:
        print(f"step {step:>6,}: return {scores['pendulum']:7.1f}")
    if callback.report is not None:
        numbers = callback.report.scalars()
        print("memory:", ", ".join(f"{numbers[phase]:.0f} {phase}" for phase in ("liquid", "glass", "crystal")))

    model.save(options.out / "model")
    model.replay_buffer.save(options.out / "memory.safetensors")

    resumed = SAC.load(options.out / "model", env=env)
    resumed.replay_buffer.load(options.out / "memory.safetensors")
    resumed.learn(options.steps // 10, callback=Consolidate(), reset_num_timesteps=False)
    print(f"after resuming: return {evaluate_policy(resumed, task, 10)[0]:.1f}")


if __name__ == "__main__":
    main()
