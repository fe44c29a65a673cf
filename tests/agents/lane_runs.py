"""Short runs of two stages with everything in them, to compare a lane among three with its seed alone."""

from __future__ import annotations

from typing import Any

import torch

from crystalrl.study.plan import plan
from crystalrl.study.run import Trainer
from crystalrl.study.spec import RunSpec

ANCHORED = {"memory": "crystal", "preset": "anchored"}
SMALL = {"width": 16, "depth": 2}
HEADS = {**SMALL, "multi_head": True}
Design = dict[str, Any]


def final_state(design: Design, seeds: tuple[int, ...]) -> dict[str, torch.Tensor]:
    (group,) = plan({"row": RunSpec(seeds=seeds, steps=400, capacity=200, batch=19, envs=3, **design)})
    trainer = Trainer(group, torch.device("cpu"))
    for stage in range(2):
        trainer.begin(stage)
        for step in range(45):
            trainer.collect()
            if step > 5:
                trainer.learn()
            if step % 20 == 10:
                trainer.memory.consolidate(trainer.agent.evaluate)
        trainer.end(stage)
    return trainer.agent.state_dict() | {"obs": trainer.world.obs}


def assert_a_lane_equals_its_seed_alone(design: Design) -> None:
    together, alone = final_state(design, (3, 7, 11)), final_state(design, (7,))
    for name, tensor in alone.items():
        if tensor.dim() > 1:
            rows = together[name].unflatten(0, (3, -1))[1]
            assert torch.equal(rows, tensor), f"{name}: {(rows - tensor).abs().max()}"
