"""Hindsight experience replay: where goals come from, and that rewards are those of the environment."""

from __future__ import annotations

import pytest
import torch

from crystalrl.methods.her import HERParams, relabelled
from crystalrl.study.run import Trainer
from crystalrl.suites.tasks import Sequence, Task
from crystalrl.types import GoalSpace
from tests.agents.batches import batch
from tests.methods.runs import scores, trainer
from tests.suites.goal_environments import Arrival

HERE = "tests.suites.goal_environments"
TWO = Sequence((Task("near", f"{HERE}:Arrival", {"near": 0.25}), Task("far", f"{HERE}:Arrival", {"near": 0.5})))
"""Gymnasium environments with dict observations: three numbers, then the goals, then the one-hot task id."""


class Diary:
    """Every step of every environment: its slot, episode and achieved goal, in plain lists."""

    def __init__(self, made: Trainer) -> None:
        self.made, self.episode = made, 0
        self.steps: list[list[list[tuple[int, int, list[float]]]]] = [[[] for _ in range(4)] for _ in range(2)]
        self.running = [[0] * 4 for _ in range(2)]

    def collect(self) -> None:
        self.made.collect()
        step, space = self.made.transition, self.made.method.goals
        slots = (self.made.memory.ledger.number[:, None] - 4 + torch.arange(4)) % 96
        for lane in range(2):
            for env in range(4):
                goal = step.next_obs[lane, env, space.achieved].tolist()
                self.steps[lane][env].append((int(slots[lane, env]), self.running[lane][env], goal))
                if bool(step.terminated[lane, env]) or bool(step.truncated[lane, env]):
                    self.running[lane][env] += 1


def played(strategy: str, suite: object = "nav-1-goals", agent: str = "dqn") -> tuple[Trainer, Diary]:
    """A uniform memory of 96 slots, which holds the last 24 of 60 steps of four environments."""
    made = trainer("her", agent, memory="uniform", suite=suite, method_params={"strategy": strategy})
    made.begin(0)
    diary = Diary(made)
    for _ in range(60):
        diary.collect()
    return made, diary


@pytest.mark.parametrize(("suite", "agent"), [("nav-1-goals", "dqn"), (TWO, "td3")], ids=["square", "dict"])
@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_goals_are_those_that_the_same_episode_achieved(strategy: str, suite: object, agent: str) -> None:
    made, diary = played(strategy, suite, agent)
    drawn = made.memory.sample(400)
    source, known = made.method.sources(drawn.index)
    assert known.float().mean() > 0.5
    for lane in range(2):
        held = {one[0]: (env, t) for env in range(4) for t, one in enumerate(diary.steps[lane][env]) if t >= 36}
        for own, other, found in zip(drawn.index[lane].tolist(), source[lane].tolist(), known[lane], strict=True):
            if not found:
                continue
            (env, t), (other_env, other_t) = held[own], held[other]
            episode = [one[1] for one in diary.steps[lane][env]]
            last = max(i for i, number in enumerate(episode) if number == episode[t])
            assert env == other_env
            assert episode[t] == episode[other_t]
            assert other_t >= t or strategy == "episode"
            assert other_t == last or strategy != "final"
            later = made.memory.arena.unpack(made.memory.arena.read(torch.tensor([[other], [other]])))["next_obs"]
            assert later[lane, 0, made.method.goals.achieved].tolist() == diary.steps[lane][env][other_t][2]


def test_relabelled_rewards_are_those_of_compute_reward() -> None:
    made, _ = played("future")
    drawn, space = made.memory.sample(256), made.method.goals
    changed = made.method.augment(drawn)
    other = (changed.obs != drawn.obs).any(-1)
    assert 0.5 < float(other.float().mean()) < 0.9
    achieved, desired = changed.next_obs[..., space.achieved], changed.next_obs[..., space.desired]
    reward, terminated = space.compute_reward(achieved, desired, None)
    assert torch.equal(changed.reward, reward)
    torch.testing.assert_close(changed.discount, made.memory.spec.gamma * (~terminated).float())
    assert terminated[other].any()
    assert torch.equal(changed.obs[..., space.desired], desired)
    assert torch.equal(changed.obs[..., :-2], drawn.obs[..., :-2])


@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_relabelled_rewards_of_gymnasium_environments_are_those_of_each_task(strategy: str, stage: int) -> None:
    made = trainer("her", "td3", memory="uniform", suite=TWO, method_params={"strategy": strategy})
    made.begin(0)
    for step in range(24 + 12 * stage):
        if step == 24:
            made.begin(1)
        made.collect()
    drawn, space, envs = made.memory.sample(200), made.method.goals, [Arrival(0.25), Arrival(0.5)]
    changed = made.method.augment(drawn)
    other = (changed.next_obs != drawn.next_obs).any(-1)
    assert float(other.float().mean()) > 0.5
    assert set(drawn.context.unique().tolist()) == set(range(stage + 1))
    for lane, i in other.nonzero().tolist():
        env, seen = envs[drawn.context[lane, i]], changed.next_obs[lane, i].numpy()
        goals = (seen[space.achieved], seen[space.desired])
        assert float(changed.reward[lane, i]) == env.compute_reward(*goals, {})
        ended = env.compute_terminated(*goals, {})
        assert float(changed.discount[lane, i]) == pytest.approx(0 if ended else made.memory.spec.gamma)
    for name in ("reward", "discount", "obs"):
        assert torch.equal(getattr(changed, name)[~other], getattr(drawn, name)[~other])


def test_dict_observations_get_the_goal_under_its_key() -> None:
    plain = batch()
    obs = {"observation": plain.obs, "achieved_goal": plain.obs[..., :2], "desired_goal": plain.obs[..., 1:]}
    drawn = batch(obs=(3,), next_obs=obs)
    drawn = type(drawn)(**{**{f: getattr(drawn, f) for f in drawn.__slots__}, "obs": obs})
    goal, chosen = torch.zeros(2, 6, 2), torch.arange(6).expand(2, -1) % 2 == 0

    def near(achieved: torch.Tensor, desired: torch.Tensor, context: object) -> tuple[torch.Tensor, torch.Tensor]:
        close = (achieved - desired).norm(dim=-1) < 1
        return close.float() - 1, close

    changed = relabelled(drawn, goal, chosen, GoalSpace(slice(0, 2), slice(1, 3), near), 0.9)
    assert torch.equal(changed.obs["desired_goal"][chosen], goal[chosen])
    assert torch.equal(changed.obs["desired_goal"][~chosen], obs["desired_goal"][~chosen])
    assert torch.equal(changed.obs["observation"], obs["observation"])
    wanted = near(obs["achieved_goal"], goal, None)[0]
    assert torch.equal(changed.reward, torch.where(chosen, wanted, drawn.reward))


def test_without_goals_and_with_n_step_returns_it_is_refused() -> None:
    with pytest.raises(ValueError, match="method her: wanted a suite that shows goals, such as reach-4-goals"):
        trainer("her", suite="nav-3")
    with pytest.raises(ValueError, match="method her: wanted n_step = 1, got 3"):
        trainer("her", agent_params={"width": 8, "n_step": 3})
    with pytest.raises(ValueError, match="strategy: wanted one of future, final, episode, got 'best'"):
        HERParams(strategy="best")
    with pytest.raises(ValueError, match="ratio: wanted a number ≥ 0, got -1"):
        HERParams(ratio=-1)


@pytest.mark.slow
def test_it_reaches_goals_sooner_than_replay_without_it() -> None:
    fields = {"suite": "reach-1-goals", "agent": "td3", "seeds": (0, 1, 2, 3), "steps": 2000, "capacity": 2000}
    fields |= {"batch": 64, "envs": 4, "points": 1, "agent_params": {"width": 64, "depth": 2, "learning_rate": 1e-3}}
    plain, hindsight = scores(**fields), scores(method="her", **fields)
    assert hindsight[:, 1].mean() > plain[:, 1].mean() + 0.1


@pytest.mark.slow
def test_it_reaches_goals_of_a_gymnasium_environment_that_plain_replay_misses() -> None:
    """Rewards are −1 except within .15 of the goal, where they are 0: plain replay rarely sees one."""
    point = Sequence((Task("point", f"{HERE}:Point", {"near": 0.15, "length": 20}, low=-20, high=0, success=True),))
    fields = {"suite": point, "agent": "td3", "seeds": (0, 1, 2), "steps": 4000, "capacity": 4000, "episodes": 20}
    settings = {"width": 64, "depth": 2, "learning_rate": 1e-3, "gamma": 0.95, "action_l2": 1e-3}
    fields |= {"batch": 64, "envs": 4, "points": 1, "agent_params": settings}
    plain, hindsight = scores(**fields), scores(method="her", **fields)
    assert hindsight[:, 1].mean() > max(0.8, plain[:, 1].mean() + 0.1)
