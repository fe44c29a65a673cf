"""Metrics against matrices worked out by hand."""

import numpy as np
import pytest

from crystalrl.study import metrics

# one learner, three tasks: R[k, j] is the score on task j after k tasks
THREE = np.array([[[0.1, 0.2, 0.0], [1.0, 0.3, 0.1], [0.6, 0.9, 0.2], [0.5, 0.7, 0.8]]])
TASKS = (0, 1, 2)
# two tasks, then task 0 redefined
AGAIN = np.array([[[0.0, 0.0, 0.0], [1.0, 0.0, 0.2], [0.8, 0.9, 0.1], [0.4, 0.6, 0.7]]])
REDEFINED = (0, 1, 0)


def test_average_performance_is_the_mean_of_the_last_row() -> None:
    assert metrics.average_performance(THREE, TASKS) == pytest.approx([(0.5 + 0.7 + 0.8) / 3])


def test_a_redefined_task_counts_in_its_last_definition() -> None:
    assert metrics.current_stages(REDEFINED, 2) == [0, 1]
    assert metrics.current_stages(REDEFINED, 3) == [2, 1]
    assert metrics.average_performance(AGAIN, REDEFINED) == pytest.approx([(0.7 + 0.6) / 2])
    assert metrics.performance_before(AGAIN, REDEFINED) == pytest.approx([(0.8 + 0.9) / 2])
    assert metrics.adaptation(AGAIN, REDEFINED) == pytest.approx([0.7])


def test_the_course_counts_every_task_so_far_in_its_latest_definition() -> None:
    assert metrics.course(THREE, TASKS)[0] == pytest.approx([1.0, (0.6 + 0.9) / 2, (0.5 + 0.7 + 0.8) / 3])
    assert metrics.course(AGAIN, REDEFINED)[0] == pytest.approx([1.0, (0.8 + 0.9) / 2, (0.7 + 0.6) / 2])


def test_backward_transfer_compares_the_end_with_the_score_right_after_learning() -> None:
    assert metrics.backward_transfer(THREE, TASKS) == pytest.approx([((0.5 - 1.0) + (0.7 - 0.9)) / 2])
    assert metrics.backward_transfer(AGAIN, REDEFINED) == pytest.approx([0.6 - 0.9])


def test_forgetting_counts_from_the_best_score_since_learning() -> None:
    rising = THREE.copy()
    rising[0, 2, 0] = 1.2
    assert metrics.forgetting(THREE, TASKS) == pytest.approx([(0.5 + 0.2) / 2])
    assert metrics.forgetting(rising, TASKS) == pytest.approx([(0.7 + 0.2) / 2])


def test_transfer_is_measured_before_a_task_is_learnt_and_leaves_out_the_first_task() -> None:
    assert metrics.zero_shot(THREE) == pytest.approx([(0.3 + 0.2) / 2])
    assert metrics.transfer_over_random(THREE) == pytest.approx([((0.3 - 0.2) + (0.2 - 0.0)) / 2])
    scratch = np.array([[1.0, 0.8, 0.9]])
    assert metrics.transfer_over_scratch(THREE, scratch) == pytest.approx([((0.3 - 0.8) + (0.2 - 0.9)) / 2])


def test_the_area_is_the_mean_height_of_the_curves_and_stages_count_alike() -> None:
    curve = np.array([[[0.0, 0.5, 1.0], [0.4, 0.8, np.nan]]])  # the second stage is shorter
    assert metrics.area(curve) == pytest.approx([(0.5 + 0.6) / 2])
    assert np.isnan(metrics.area(np.zeros((2, 3, 0)))).all()


def test_area_transfer_is_a_share_of_the_possible_gain() -> None:
    curve = np.array([[[0.5, 0.9], [0.0, 0.4]]])
    reference = np.array([[[0.2, 0.6], [0.2, 0.6]]])
    assert metrics.transfer_of_area(curve, reference) == pytest.approx([((0.7 - 0.4) / 0.6 + (0.2 - 0.4) / 0.6) / 2])
    perfect = np.array([[[1.0, 1.0], [0.2, 0.6]]])
    assert metrics.transfer_of_area(curve, perfect) == pytest.approx([(0.2 - 0.4) / 0.6])


def test_retention_of_the_first_task_is_a_ratio_and_nan_if_nothing_was_learnt() -> None:
    assert metrics.first_task_retention(THREE, TASKS) == pytest.approx([0.5])
    nothing = THREE.copy()
    nothing[0, 1, 0] = 0.0
    assert np.isnan(metrics.first_task_retention(nothing, TASKS)).all()


def test_undefined_metrics_are_nan_and_not_zero() -> None:
    single = np.array([[[0.1], [0.9]]])
    assert metrics.average_performance(single, (0,)) == pytest.approx([0.9])
    for metric in (metrics.backward_transfer, metrics.forgetting):
        assert np.isnan(metric(single, (0,))).all()
    assert np.isnan(metrics.adaptation(THREE, TASKS)).all()
