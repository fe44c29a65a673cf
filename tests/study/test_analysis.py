"""From stored scores to samples: what is chosen, compared and averaged."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from crystalrl.report.study_page import write_report
from crystalrl.report.text import comparison_table, family, order_table
from crystalrl.report.text import number as text_number
from crystalrl.study.analysis import compare, load_results
from crystalrl.study.definition import Table
from crystalrl.study.plan import plan
from crystalrl.study.recorder import Recorder
from crystalrl.study.run import Built, Curve, Scored
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import Store
from crystalrl.suites.workers import Incident
from tests.made_up_results import write_results
from tests.study.own_tasks import OWN
from tests.study.own_tasks import SMALL as SMALL_OWN

SMALL = {"suite": "nav-2", "steps": 160, "capacity": 64, "batch": 16, "episodes": 2, "points": 1}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_results(tmp_path / "out")


def test_a_value_is_chosen_on_the_tuning_seeds_even_if_another_reports_better(folder: Path) -> None:
    results = load_results(folder)
    ewc = results.rows[1]
    assert ewc.chosen.name == "EWC strength=10.0"
    assert ewc.chosen.metrics["AP"] == pytest.approx([0.40, 0.41, 0.42])
    assert ewc.tuned == pytest.approx({"EWC strength=1.0": 0.305, "EWC strength=10.0": 0.605})


def test_the_comparison_is_with_the_reference_row(folder: Path) -> None:
    (only,) = compare(load_results(folder))
    assert (only.row, round(only.difference, 3)) == ("EWC", 0.5)
    assert only.p == only.adjusted < 1e-4


def test_every_metric_of_the_family_is_adjusted_with_the_others(folder: Path) -> None:
    spec = folder / "spec.toml"
    spec.write_text(spec.read_text().replace("tuning_seeds =", 'family = ["AP", "learned"]\ntuning_seeds ='))
    results = load_results(folder)
    ap, learned = compare(results)
    assert (ap.metric, learned.metric) == ("AP", "learned")
    assert ap.adjusted == pytest.approx(2 * ap.p)
    assert "covers 2 tests: anchored against 1 other row in AP, learned." in family(results)
    assert float(ap.better.value) == 1.0
    line = comparison_table(results).lines[0]
    assert line[:3] == ["EWC", "AP", "+0.500"]
    assert "1.000 [.501, 1.000]" in line


def test_orders_are_read_in_training_order_and_averaged_per_seed(tmp_path: Path) -> None:
    """Made-up learners: .9 on the last task, .5 on the earlier ones; order 1 scores slightly higher."""
    spec = RunSpec(**{**SMALL, "suite": "nav-3", "seeds": (4, 6), "orders": 2})
    table = Table("", {"VR": spec})
    store, (group,) = Store(tmp_path, table.to_toml()), plan(table.runs())
    recorder = Recorder(group)
    recorder.record(Built(1000))
    stages = np.array([lane.stages for lane in group.lanes])
    bonus = np.array([[0.01 * lane.seed + 0.05 * lane.cell.endswith("1")] for lane in group.lanes])
    for after in range(4):
        score = np.zeros((4, 3))
        np.put_along_axis(score, stages[:, :after], 0.5, axis=1)
        np.put_along_axis(score, stages[:, max(after - 1, 0) : after], 0.9, axis=1)
        recorder.record(Scored(after, torch.as_tensor(score + bonus)))
    for stage in range(3):
        recorder.record(Curve(stage, 160, torch.full((4,), 0.1 * stage)))
    store.write(group.key, recorder.tables(), "cpu")
    (row,) = load_results(tmp_path).rows
    cell = row.chosen
    assert cell.stored == ("VR order=0", "VR order=1")
    assert cell.R[:, 3] == pytest.approx(np.array([[0.5, 0.5, 0.9]]) + bonus, abs=1e-6)
    assert cell.curve[:, :, 0] == pytest.approx(np.array([[0.0, 0.1, 0.2]] * 4))
    assert cell.metrics["BT"] == pytest.approx([-0.4, -0.4])
    assert cell.by_order["AP"] == pytest.approx(1.9 / 3 + np.array([[0.04, 0.09], [0.06, 0.11]]))
    assert cell.metrics["AP"] == pytest.approx(cell.by_order["AP"].mean(axis=1))
    assert cell.final.shape == (2, 6)
    (line,) = order_table(load_results(tmp_path)).lines
    assert line[:3] == ["VR", "2", text_number(0.05 / 2**0.5)]


def test_seeds_that_failed_are_left_out_of_their_row(tmp_path: Path) -> None:
    spec = RunSpec(**{**SMALL, "seeds": (4, 6, 8)})
    table = Table("", {"VR": spec, "again": replace(spec, warmup=100)})
    store = Store(tmp_path, table.to_toml())
    for group in plan(table.runs()):
        recorder = Recorder(group)
        recorder.record(Built(1000))
        for after in range(3):
            recorder.record(Scored(after, torch.tensor([[0.1], [torch.nan], [0.5]]).expand(3, 2)))
        for stage in range(2):
            recorder.record(Curve(stage, 160, torch.zeros(3)))
        recorder.record(Incident(1, 0, "task", "reward: wanted finite numbers, got nan", 3, fatal=True))
        store.write(group.key, recorder.tables(), "cpu")
    results = load_results(tmp_path)
    assert [row.chosen.seeds for row in results.rows] == [(4, 8)] * 2
    assert results.rows[0].chosen.metrics["AP"] == pytest.approx([0.1, 0.5])
    assert np.isfinite(compare(results)[0].difference)


def test_a_user_defined_task_that_comes_again_counts_once_and_has_points_at_its_own_steps(tmp_path: Path) -> None:
    """Stages 0 and 2 are one task; MountainCar, stage 1, has half the steps."""
    table = Table("", {"row": RunSpec(OWN, **SMALL_OWN)})
    (group,) = plan(table.runs())
    recorder = Recorder(group)
    recorder.record(Built(8))
    final = torch.tensor([[0.9, 0.4, 0.8]], dtype=torch.float64)
    for stage in range(4):
        if stage:
            for part in (1, 2):
                step = part * group.stage_steps[stage - 1] // 2
                recorder.record(Curve(stage - 1, step, torch.tensor([stage + part / 4], dtype=torch.float64)))
        recorder.record(Scored(stage, final * stage / 3))
    Store(tmp_path, table.to_toml()).write(group.key, recorder.tables(), "cpu")
    results = load_results(tmp_path)
    (row,) = results.rows
    assert results.tasks == (0, 1, 0)
    assert results.task_names == ("cart", "car", "cart again")
    assert row.chosen.metrics["AP"][0] == pytest.approx((0.8 + 0.4) / 2)  # not the first definition's .9
    assert row.chosen.metrics["before"][0] == pytest.approx(2 / 3 * (0.9 + 0.4) / 2)
    assert row.chosen.metrics["adapted"][0] == pytest.approx(0.8)
    assert row.chosen.curve[0].tolist() == [[1.25, 1.5], [2.25, 2.5], [3.25, 3.5]]
    assert row.stage_steps == (480, 240, 480)
    page = write_report([tmp_path], tmp_path / "report.html").read_text()
    assert "2 tasks in sequence, then 1 of them redefined, 240 to 480 steps each" in page
    assert "cart (return from 20 to 500), car (return from -200 to -110)" in page
