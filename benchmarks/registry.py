"""All benchmarks by name."""

from __future__ import annotations

from functools import partial

from benchmarks import (
    agreement,
    consolidation,
    contexts,
    coverage,
    cuda,
    deviations,
    first_minutes,
    frames,
    halfcheetah,
    interference,
    learners,
    memories,
    pictures,
    sac,
    suites,
)
from benchmarks.harness.results import Benchmark
from benchmarks.libraries import continual, equivalence, learning, overhead, parts, pendulum, sb3
from crystalrl.study.execution import best_device

BENCHMARKS: dict[str, Benchmark] = {
    "memory": Benchmark(
        "Speed and size of the memories, compared with cpprb and Stable-Baselines3.", "memory", memories.measure,
        {"memory": memories.speed_block, "memory-profile": memories.profile_block,
         "memory-bytes": memories.bytes_block},
    ),
    "consolidation": Benchmark(
        "Consolidation of large memories on CPU, compared with FAISS.", "consolidation", consolidation.measure,
        {"consolidation": consolidation.speed_block, "consolidation-stages": consolidation.stages_block,
         "consolidation-quality": consolidation.quality_block, "consolidation-resident": consolidation.resident_block},
    ),
    "agreement": Benchmark(
        "Kept neighbour lists compared with all pairs.", "agreement", agreement.measure,
        {"agreement": agreement.block},
    ),
    "interference": Benchmark(
        "How often the rules of interference are right.", "interference", interference.measure,
        {"interference-noise": interference.noise_block, "interference-automatic": interference.automatic_block},
    ),
    "contexts": Benchmark(
        "What a memory keeps of fifty contexts, and what melts when one of two is redefined.", "contexts",
        contexts.measure, {"redefinition": contexts.redefinition_block, "fifty-contexts": contexts.fifty_block},
    ),
    "coverage": Benchmark(
        "How often confidence intervals from few seeds contain the true value.", "coverage", coverage.measure,
        {"coverage": coverage.block},
    ),
    "frames": Benchmark(
        "Stacked frames stored once: bytes per experience and speed.", "frames", frames.measure,
        {"frames": frames.block},
    ),
    "pictures": Benchmark(
        "A small life of a memory: phases, anchors, melting.", "pictures", pictures.measure,
        {"pictures": pictures.block}, pictures.FIGURES,
    ),
    "first-minutes": Benchmark(
        "The first minutes of a new user in a clean environment.", "first_minutes", first_minutes.measure,
        {"first-minutes": first_minutes.block},
    ),
    "deviations": Benchmark(
        "Where the preset `paper` differs from a literal reading of the paper.", "deviations", deviations.measure,
        {"deviations": deviations.block, "deviations-learning": deviations.learning_block},
    ),
    "cuda": Benchmark(
        "Speed of memories on CUDA, and agreement with the CPU.", "cuda", cuda.measure, {"cuda": cuda.block},
        device="cuda",
    ),
    "cuda-profile": Benchmark(
        "The most expensive operations of a consolidation on CUDA.", "cuda_profile", cuda.measure_profile,
        device="cuda",
    ),
    "learners": Benchmark(
        "Lane-updates per second of all designs, and of SAC with large memories.", "learners", learners.measure,
        {"learners": learners.block, "learners-updates": sac.updates_block, "learners-sb3": sac.sb3_block,
         "learners-overhead": sac.overhead_block},
        device=best_device(),
    ),
    "one-lane": Benchmark(
        "What lanes cost a single SAC learner on CPU.", "one_lane", partial(learners.measure, lanes=()),
        {"one-lane": sac.one_lane_block, "one-lane-updates": sac.updates_block, "one-lane-sb3": sac.sb3_block,
         "one-lane-overhead": sac.overhead_block},
    ),
    "halfcheetah": Benchmark(
        "Scores of our SAC on HalfCheetah-v5.", "halfcheetah", halfcheetah.measure,
        {"halfcheetah": halfcheetah.block, "halfcheetah-curve": halfcheetah.curve_block}, device=best_device(),
    ),
    "suites": Benchmark(
        "Environment steps with updates per second on Meta-World, MinAtar and Atari, compared with Stable-Baselines3.",
        "suites", suites.measure, {"suites": suites.block}, device=best_device(),
    ),
    "sb3-forgetting": Benchmark(
        "SAC of Stable-Baselines3 on two Pendulums, by buffer and number of slots.", "sb3_forgetting",
        pendulum.measure, {"sb3-forgetting": pendulum.block},
    ),
    "sb3-overhead": Benchmark(
        "Gradient steps of Stable-Baselines3 with its own buffer and with ours.", "sb3", sb3.measure,
        {"sb3-overhead": sb3.block},
    ),
    "sb3-continual": Benchmark(
        "Three CartPoles one after another with Stable-Baselines3.", "sb3_continual", continual.measure,
        {"sb3-continual": continual.block}, {"figures/sb3-continual.png": continual.draw},
    ),
    **{
        f"sb3-{task}": Benchmark(
            f"Plain replay with the buffer of Stable-Baselines3 and with ours: {each.env}.", f"sb3_{task}",
            partial(equivalence.measure, name=task), {f"sb3-{task}": partial(equivalence.block, name=task)},
        )
        for task, each in equivalence.TASKS.items()
    },
    "adoption-parts": Benchmark(
        "Which part of a crystal memory costs or helps on one task: DQN on CartPole.", "adopt_parts", parts.measure,
        {"adoption-parts": parts.block},
    ),
    **{
        f"adoption-{name}": Benchmark(
            f"Learning with the buffers of {title} and with ours.", f"adopt_{name}",
            partial(learning.measure, name=name), {f"adoption-{name}": partial(learning.block, name=name)},
        )
        for name, title in learning.TITLES.items()
    },
    **{
        f"overhead-{name}": Benchmark(
            f"Gradient steps with the buffers of {title} and with ours.", f"overhead_{name}",
            partial(overhead.measure, name=name), {f"overhead-{name}": overhead.block},
        )
        for name, title in learning.TITLES.items()
    },
}  # fmt: skip
