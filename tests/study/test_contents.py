"""What memories hold at the end of a stage."""

import torch
from torch import Tensor

from crystalrl import CrystalMemory, Transition, UniformMemory
from crystalrl.methods.base import read_slots
from crystalrl.study.contents import INSPECTED, contents
from crystalrl.study.plan import plan
from crystalrl.study.run import Trainer
from crystalrl.study.spec import RunSpec
from crystalrl.types import Batch


def filled(kind: type, slots: int) -> object:
    memory = kind(slots, obs=(2,), action=3, seed=0)
    for step in range(slots):
        memory.add(Transition(torch.full((2,), float(step)), 0, 0.0, torch.zeros(2), False, False))
    return memory


class Halves:
    """Stands for an agent: the values of both actions are the first number of an observation and half of it."""

    parts = ("q",)

    def outputs(self, batch: Batch) -> dict[str, Tensor]:
        first = batch.obs[..., :1]
        return {"q": torch.cat([first, first / 2], -1)}


def test_a_limited_number_of_experiences_evenly_spaced_and_the_same_each_time() -> None:
    (group,) = plan({"row": RunSpec("nav-2", steps=80)})
    memory = filled(CrystalMemory, 2 * INSPECTED)
    (first,), (second,) = (list(contents(memory, Halves(), group, 1)) for _ in range(2))  # type: ignore[arg-type]
    assert (first.stage, first.done) == (1, 160)
    assert first.experiences[0]["index"].tolist() == list(range(0, 2 * INSPECTED, 2))
    assert torch.equal(first.experiences[0]["obs"], second.experiences[0]["obs"])
    assert torch.equal(first.experiences[0]["value"], first.experiences[0]["obs"][:, 0])


def test_the_value_of_an_experience_is_that_of_the_best_action_or_of_the_stored_one_by_the_lower_critic() -> None:
    for agent in ("dqn", "sac"):
        suite = "nav-2" if agent == "dqn" else "reach-2"
        trainer = Trainer(
            plan(
                {"row": RunSpec(suite, agent=agent, seeds=(0, 1), memory="crystal", steps=400, capacity=60, batch=16)}
            )[0],
            torch.device("cpu"),
        )
        trainer.begin(0)
        for _ in range(20):
            trainer.collect()
        (found,) = contents(trainer.memory, trainer.agent, trainer.group, 0)
        held = found.experiences[0]
        index = torch.zeros(2, len(held["index"]), dtype=torch.int64)
        index[0] = held["index"]
        q = trainer.agent.outputs(read_slots(trainer.memory, index))["q"][0].detach()
        assert torch.equal(held["value"], q.max(-1).values if agent == "dqn" else q.min(-1).values)


def test_a_memory_without_states_has_none() -> None:
    (group,) = plan({"row": RunSpec("nav-2", steps=80)})
    assert list(contents(filled(UniformMemory, 8), Halves(), group, 0)) == []  # type: ignore[arg-type]
