"""The callback: when it consolidates, what it logs, warns about and evaluates."""

from __future__ import annotations

import logging
import re
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.vec_env import VecNormalize

from crystalrl import CrystalParams
from crystalrl.integrations.sb3 import Consolidate
from crystalrl.memory.crystal.metrics import MAIN
from tests.integrations.twins import QUICK, build


class Kept(KVWriter):
    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def write(self, key_values: dict[str, Any], key_excluded: Any, step: int = 0) -> None:
        self.rows.append(dict(key_values))

    def close(self) -> None:
        pass


def quiet(model: Any, steps: int, callback: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "memory:")
        return model.learn(steps, callback=callback, **options)


def crystal(name: str = "DQN", **changes: Any) -> dict[str, Any]:
    return {"params": CrystalParams.anchored(**QUICK | changes)}


def test_consolidations_come_when_due_and_never_before_the_first_gradient_step() -> None:
    model = build("DQN", learning_starts=120, replay_buffer_kwargs=crystal(every=50))
    counts = []

    class Watch(Consolidate):
        def _on_step(self) -> bool:
            result = super()._on_step()
            counts.append(int(self.model.replay_buffer.memory.consolidations))
            return result

    quiet(model, 400, Watch())
    when = [step for step in range(1, len(counts)) if counts[step] > counts[step - 1]]
    assert when[0] in (121, 122, 123)  # 120 steps of warm-up, one step with an update, then it is overdue
    assert all(later - earlier == 50 for earlier, later in pairwise(when))
    assert len(when) == 6


def test_the_warm_up_does_not_crystallize_anything() -> None:
    model = build("DQN", learning_starts=300, replay_buffer_kwargs=crystal(every=50, settle=None))
    callback = Consolidate()
    quiet(model, 305, callback)
    assert callback.report is not None
    assert int(model.replay_buffer.memory.consolidations) == 1
    assert float(model.replay_buffer.memory.ledger.c.max()) == 0


def test_the_report_reaches_the_logger() -> None:
    model, kept = build("SAC", replay_buffer_kwargs=crystal(), env=make_vec_env("Pendulum-v1", 2)), Kept()
    model.set_logger(Logger(None, [kept]))
    callback = Consolidate()
    quiet(model, 600, callback, log_interval=1)
    row = [row for row in kept.rows if "memory/crystal" in row][-1]
    assert row["memory/crystal"] > 0
    assert row["memory_details/liquid"] + row["memory_details/glass"] + row["memory/crystal"] <= 400
    assert "memory_details/contexts" not in row  # there are no ids, so there is no number
    assert {name for name in row if name.startswith("memory/")} == {f"memory/{name}" for name in MAIN}
    assert callback.report is not None


def test_the_page_shows_the_four_numbers_that_matter_first() -> None:
    page = Path(__file__).parents[3].joinpath("docs/integrations/sb3.md").read_text()
    section = page.partition("## What is logged")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `") and "…" not in line[:12]]
    assert [name for row in rows for name in re.findall(r"`(\w+)`", row)] == list(MAIN)
    assert "../metrics.md" in section


def test_a_health_warning_is_given_once() -> None:
    model = build("DQN", replay_buffer_kwargs=crystal(settle=None))
    found = []

    class Watch(Consolidate):
        def _on_step(self) -> bool:
            before, result = self.report, super()._on_step()
            found.extend(self.report.warnings if self.report is not None and self.report is not before else [])
            return result

    with pytest.warns(UserWarning, match="memory: ") as caught:
        model.learn(500, callback=Watch())
    texts = [str(w.message) for w in caught if str(w.message).startswith("memory:")]
    assert sorted(texts) == sorted({f"memory: {text}" for text in found})
    assert len(found) > len(texts)


def test_what_a_consolidation_notes_is_logged_once_at_level_info_and_not_warned_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    env = make_vec_env("Pendulum-v1", 20, seed=0)
    kwargs = crystal(cell=0.01, backup=0.5)
    model = build("SAC", replay_buffer_kwargs=kwargs, env=env, buffer_size=4000, learning_starts=1200)
    callback = Consolidate()
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.INFO, "crystalrl"):
        warnings.simplefilter("always")
        model.learn(1400, callback=callback)
    assert callback.report is not None
    assert any("novelty grid" in note for note in callback.report.notes)
    assert not [each for each in caught if "novelty grid" in str(each.message)]
    told = [record for record in caplog.records if "novelty grid" in record.getMessage()]
    assert [record.levelno for record in told] == [logging.INFO]


def test_tasks_are_evaluated_on_schedule_with_the_policy_of_that_moment() -> None:
    tasks = {name: make_vec_env("CartPole-v1", 2, seed=k) for k, name in enumerate(("one", "two"))}
    callback = Consolidate(tasks, evaluate_every=100, episodes=4)
    model = build("DQN", replay_buffer_kwargs=crystal())
    quiet(model, 250, callback)
    assert [step for step, _ in callback.scores] == [100, 200]
    assert all(set(scores) == {"one", "two"} for _, scores in callback.scores)
    tasks["one"].seed(7)
    now = callback.evaluate()["one"]
    tasks["one"].seed(7)
    assert now == evaluate_policy(model, tasks["one"], 4, warn=False)[0]


def test_evaluation_follows_the_normalisation_of_the_training_environment() -> None:
    train = VecNormalize(make_vec_env("Pendulum-v1", 1, seed=0))
    task = VecNormalize(make_vec_env("Pendulum-v1", 1, seed=1), training=False, norm_reward=False)
    callback = Consolidate({"pendulum": task}, evaluate_every=150, episodes=1)
    build("SAC", env=train, replay_buffer_kwargs=crystal()).learn(150, callback=callback)
    assert task.obs_rms.count == pytest.approx(train.obs_rms.count)


def test_impossible_schedules_are_refused() -> None:
    with pytest.raises(ValueError, match="evaluate_every, episodes"):
        Consolidate(evaluate_every=0)


def test_a_second_call_of_learn_goes_on_with_the_same_memory_and_one_set_of_hooks() -> None:
    model = build("SAC", replay_buffer_kwargs=crystal())
    quiet(model, 120, Consolidate())
    memory = model.replay_buffer.memory
    quiet(model, 120, Consolidate(), reset_num_timesteps=False)
    assert model.replay_buffer.memory is memory
    assert len(model.critic._forward_hooks) == len(model.actor.mu._forward_hooks) == 1
    assert int(memory.time) == 240
    assert torch.isfinite(memory.ledger.c).all()
