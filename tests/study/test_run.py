"""The training loop, end to end on small runs."""

from dataclasses import replace

import pytest
import torch

from crystalrl.agents import Agent
from crystalrl.methods import Method
from crystalrl.study.plan import plan
from crystalrl.study.run import Curve, Progress, Scored, Trainer, run
from crystalrl.study.spec import RunSpec
from crystalrl.suites.tasks import Sequence, Task
from crystalrl.suites.workers import Incident
from crystalrl.types import Memory
from tests.study.own_tasks import OWN
from tests.study.own_tasks import SMALL as SMALL_OWN

SMALL = {"steps": 480, "capacity": 256, "batch": 32, "episodes": 4, "points": 2, "agent_params": {"width": 16}}
DESIGNS = [
    {"memory": "uniform"},
    {"memory": "uniform", "method": "ewc"},
    {"memory": "prioritized"},
    {"memory": "reservoir", "method": "distill"},
    {"memory": "crystal", "preset": "anchored"},
    {"memory": "crystal", "preset": "paper", "params": {"every": 200, "every_episode": False}},
]


def name(design: dict[str, object]) -> str:
    return " ".join(value for value in design.values() if isinstance(value, str))


def scores(**fields: object) -> torch.Tensor:
    (group,) = plan({"row": RunSpec(**fields)})
    return torch.stack([event.score for event in run(group) if isinstance(event, Scored)], dim=1)


@pytest.mark.parametrize("design", DESIGNS, ids=name)
def test_a_lane_among_four_equals_its_seed_alone_bit_for_bit(design: dict[str, object]) -> None:
    fields = {"suite": "nav-2-redefined", **design, **SMALL}
    groups = [plan({"row": RunSpec(seeds=seeds, **fields)})[0] for seeds in ((3, 5, 7, 11), (7,))]
    together, alone = (_final_state(group) for group in groups)
    assert torch.equal(together[2], alone[0])


def _final_state(group) -> torch.Tensor:
    trainer = Trainer(group, torch.device("cpu"))
    for stage in range(3):
        trainer.begin(stage)
        practise(trainer, 60, 10)
        trainer.end(stage)
    return trainer.agent.theta.detach()


def practise(trainer: Trainer, steps: int, idle: int) -> None:
    """Take this many steps, with updates after the first `idle`."""
    for step in range(steps):
        trainer.collect()
        if step > idle:
            trainer.learn()
        if trainer.memory.due:
            trainer.memory.consolidate(trainer.agent.evaluate)


def test_the_same_spec_gives_the_same_scores() -> None:
    fields = {"suite": "nav-2", "memory": "prioritized", "seeds": (0, 1), **SMALL}
    assert torch.equal(scores(**fields), scores(**fields))


def test_a_learner_whose_score_is_not_finite_fails_and_the_others_are_scored() -> None:
    """A task whose lowest and highest scores are equal: 0/0."""
    (group,) = plan({"row": RunSpec("cartpole-2", seeds=(0, 1), **{**SMALL, "steps": 80})})
    trainer = Trainer(group, torch.device("cpu"))
    trainer.suite.stages[1][1] = replace(trainer.suite.stages[1][1], low=0.0, high=0.0)
    events = list(run(group, "cpu", trainer))
    (incident,) = [event for event in events if isinstance(event, Incident)]
    assert (incident.lane, incident.task, incident.during, incident.fatal) == (1, "stage 2", "scoring", True)
    assert incident.learner == "row, seed 1"
    assert incident.what == "score: wanted a finite number, got inf"
    for event in events:
        if isinstance(event, Scored):
            assert torch.isfinite(event.score[0]).all()
            assert torch.isnan(event.score[1]).all()


def test_the_return_of_an_episode_boosts_the_utility_of_its_experiences() -> None:
    """Nothing is evicted, so that all episodes can be recomputed from the stored experiences."""
    fields = {
        **SMALL,
        "capacity": 8192,
        "suite": "cartpole",
        "seeds": (3, 5),
        "memory": "crystal",
        "preset": "anchored",
    }
    on, off = (
        Trainer(plan({"row": RunSpec(**fields, params={"boost": boost, "every": 10_000})})[0], torch.device("cpu"))
        for boost in (True, False)
    )
    for trainer in (on, off):
        trainer.begin(0)
        for _ in range(100):
            trainer.collect()
        trainer.memory.consolidate(trainer.agent.evaluate)
    boost = on.memory.ledger.boost
    assert int((boost > 0.1).sum()) > 100
    for lane in range(2):
        told = on.memory.experiences(lane=lane)
        largest = float(told["reward"].abs().max()) / (1 - on.memory.spec.gamma)
        for env in range(on.spec.envs):
            mine = told["index"][told["number"] % on.spec.envs == env]
            mine = mine[on.memory.ledger.birth[lane, mine].argsort()]
            rows = on.memory.arena.unpack(on.memory.arena.rows[lane, mine])["reward"]
            ends = on.memory.arena.endings(on.memory.arena.rows[lane, mine]) > 0
            begun = 0
            for last in ends.nonzero().flatten().tolist():
                discount = on.memory.spec.gamma ** torch.arange(last + 1 - begun, dtype=torch.float64)
                wanted = float((discount * rows[begun : last + 1]).sum()) / largest
                torch.testing.assert_close(
                    boost[lane, mine[begun : last + 1]], torch.full((last + 1 - begun,), min(max(wanted, 0.0), 1.0))
                )
                begun = last + 1
    raised = on.memory.ledger.utility - off.memory.ledger.utility
    torch.testing.assert_close(raised.clamp_min(0) > 0, (boost > 0) & (off.memory.ledger.utility < 1))


class Told(Method):
    """A method that writes down what it is told about tasks."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def task_start(self, agent: Agent, memory: Memory, task: int) -> None:
        self.calls.append(("start", task))

    def task_end(self, agent: Agent, memory: Memory, task: int) -> None:
        self.calls.append(("end", task))


def everything(trainer: Trainer) -> dict[str, torch.Tensor]:
    state = trainer.state()
    assert state is not None
    return {name: tensor for name, tensor in state.items() if name != "run.at"}


@pytest.mark.parametrize(("suite", "seamless"), [("drift-3", True), ("nav-3", False)])
def test_only_without_boundaries_is_training_in_stages_the_same_as_in_one_go(suite: str, seamless: bool) -> None:
    """Networks, memory, environments and exploration, bit for bit; and a method is told nothing."""
    fields = {**SMALL, "memory": "crystal", "preset": "anchored", "seeds": (3, 5), "warmup": 0}
    (group,) = plan({"row": RunSpec(suite, **fields)})
    staged, whole = (Trainer(group, torch.device("cpu")) for _ in range(2))
    staged.method = Told()
    list(run(group, "cpu", staged))
    whole.begin(0)
    practise(whole, 3 * 60, -1)
    mine, other = everything(staged), everything(whole)
    assert all(torch.equal(mine[name], other[name]) for name in mine) == seamless
    told = [(what, task) for task in range(3) for what in ("start", "end")]
    assert staged.method.calls == ([("start", 0)] if seamless else told)


def test_from_scratch_a_drifting_stage_is_trained_on_its_own_part_of_the_path() -> None:
    (group,) = plan({"row": RunSpec("drift-3", scratch=True, seeds=(3, 5), **SMALL)})
    trainer = Trainer(group, torch.device("cpu"))
    trainer.begin(0)
    first = trainer.world.stage[:, 0].clone()
    practise(trainer, 60, 60)
    assert first.tolist() == [0.0, 1.0, 2.0] * 2
    torch.testing.assert_close(trainer.world.stage[:, 0], first + 1)


def test_own_tasks_are_trained_for_their_own_steps_and_explored_over_them() -> None:
    (group,) = plan({"row": RunSpec(OWN, **SMALL_OWN, explore=0.5)})
    trainer, seen, horizons = Trainer(group, torch.device("cpu")), [], set()
    for event in run(group, "cpu", trainer):
        if isinstance(event, Progress):
            seen.append((event.stage, event.done))
            horizons.add((event.stage, float(trainer.horizon)))
        elif isinstance(event, Curve):
            seen.append((event.stage, f"point {event.step}"))
    assert [len([1 for stage, _ in seen if stage == k]) for k in range(3)] == [60 + 2, 30 + 2, 60 + 2]
    assert [done for _, done in seen if isinstance(done, str)] == [f"point {n}" for n in (240, 480, 120, 240, 240, 480)]
    assert seen[-1] == (2, 1200)
    assert horizons == {(0, 240.0), (1, 120.0), (2, 240.0)}


def test_own_tasks_reach_the_agent_with_the_id_of_their_first_time() -> None:
    (group,) = plan({"row": RunSpec(OWN, **SMALL_OWN)})
    trainer = Trainer(group, torch.device("cpu"))
    assert (trainer.suite.obs, trainer.suite.action, trainer.suite.tasks) == ((4 + 2,), 3, (0, 1, 0))
    seen = []
    for stage in range(3):
        trainer.begin(stage)
        seen.append(trainer.world.obs[0, 0, 4:].tolist())
    assert seen == [[1, 0], [0, 1], [1, 0]]
    (hidden,) = plan({"row": RunSpec(replace(OWN, hidden=True), **SMALL_OWN)})
    assert Trainer(hidden, torch.device("cpu")).suite.obs == (4,)


def test_an_agent_learns_a_task_of_its_own() -> None:
    """CartPole with a longer pole: the score, which is 0 for random actions, rises."""
    task = Task("long", "CartPole-v1", physics={"length": 0.8}, low=20.0, high=200.0)
    settings = {"steps": 5000, "envs": 2, "capacity": 5000, "batch": 64, "episodes": 8, "points": 1, "explore": 0.5}
    agent = {"width": 64, "depth": 2, "learning_rate": 1e-3}
    (group,) = plan({"row": RunSpec(Sequence([task]), seeds=(0, 1, 2), **settings, agent_params=agent)})
    before, after = (event.score for event in run(group) if isinstance(event, Scored))
    assert before.abs().max() < 0.2
    assert after.min() > 0.5


def test_every_task_starts_with_the_given_number_of_random_steps() -> None:
    spec = RunSpec("nav-2", random_steps=160, epsilon=0.0, explore=0.0, warmup=10_000, **SMALL)
    trainer = Trainer(plan({"row": spec})[0], torch.device("cpu"))
    for stage in range(2):
        trainer.begin(stage)
        own = []
        for _ in range(60):
            best = trainer.agent.greedy(trainer.world.obs, trainer.world.context)
            trainer.collect()
            own.append(float((trainer.action == best).float().mean()))
        assert sum(own[:20]) / 20 < 0.4  # one of five actions is the best
        assert own[21:] == [1.0] * 39


def test_rewards_are_scaled_for_learning_and_not_for_scores() -> None:
    learners = {}
    for factor in (1.0, 100.0):
        spec = RunSpec("nav-2", memory="crystal", reward_scale=factor, warmup=10_000, **SMALL)
        trainer = Trainer(plan({"row": spec})[0], torch.device("cpu"))
        trainer.begin(0)
        for _ in range(30):
            trainer.advance(0)
        learners[factor] = trainer
    plain, scaled = (trainer.memory.experiences() for trainer in learners.values())
    assert len(plain["reward"]) == 240
    torch.testing.assert_close(scaled["reward"], 100 * plain["reward"])
    torch.testing.assert_close(learners[100.0].episodes.total, 100 * learners[1.0].episodes.total)
    assert torch.equal(learners[100.0].score_all(), learners[1.0].score_all())


@pytest.mark.parametrize("agent", ["dqn", "sac", "td3"])
@pytest.mark.parametrize("memory", ["crystal", "reservoir"])
def test_with_pop_art_the_unit_of_rewards_changes_nothing(memory: str, agent: str) -> None:
    """A power of two, so that floats represent multiples exactly: the learner stays the same bit for bit."""
    suite = "nav-2-redefined" if agent == "dqn" else "reach-2-redefined"
    more = {"agent": agent, "memory": memory, **SMALL, "agent_params": {"width": 16, "pop_art": True}}
    states = [
        _final_state(plan({"row": RunSpec(suite, reward_scale=factor, **more)})[0]) for factor in (1.0, 2.0**-7, 2.0**7)
    ]
    assert all(torch.equal(state, states[0]) for state in states)


def test_updates_during_a_step_of_environments_do_not_see_its_transitions() -> None:
    (group,) = plan({"row": RunSpec("cartpole", warmup=0, **SMALL)})
    trainer = Trainer(group, torch.device("cpu"))
    trainer.begin(0)
    seen = []
    trainer.learn.step = lambda: seen.append(len(trainer.memory))
    for _ in range(3):
        trainer.advance(1)
    assert seen == [0, 8, 16]
