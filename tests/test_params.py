"""Parameters: values of the presets, changes to them, files."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from crystalrl import CrystalParams

TABLE = ("paper_robotics", "paper_games", "paper_navigation")
PRESETS = {name: getattr(CrystalParams, name) for name in ("anchored", "unanchored", "repaired", "paper", *TABLE)}

EXPECTED = {
    "repaired": {
        "gate": 2, "w_min": 0.5, "kappa": 0, "capacity": (10, 5, 1), "batch": (0.70, 0.25, 0.05),
        "interference": "newer_majority", "melt": None, "tau_evict": 100, "band_C": 0.05, "overflow": "reservoir",
        "scale": "median", "integrator": "beta", "alpha": 0.05, "beta": 0.005, "sigma": 0.005, "clock": "steps",
        "time_unit": 200, "nu": 0.6, "is_exponent": 0.4, "is_steps": None, "every": 5000, "every_episode": False,
        "boost": True, "leak": 0,
    },
    "paper": {
        "gate": 2, "w_min": 0, "kappa": 0, "capacity": (10, 5, 1), "batch": (0.70, 0.25, 0.05),
        "interference": "exists", "melt": None, "beta": 0.005, "tau_evict": 20, "band_C": None, "overflow": "frozen",
        "scale": "raw", "integrator": "euler", "alpha": 0.05, "sigma": 0.005, "clock": "calls", "nu": 0.4,
        "is_exponent": 0.4, "is_steps": None, "every": 5000, "every_episode": True, "boost": True, "split": "floor",
        "raw_distance": True, "band_L": 0.05, "Z": 50, "slices": 1, "leak": 0,
        "project": False, "importance": "memory", "spare": 0.05, "novelty": "state_action", "delta_t": 1,
    },
    "anchored": {
        "gate": 2, "w_min": 0, "kappa": 1, "anchor_power": 2, "practice": 5, "capacity": (6, 2, 8),
        "batch": (0.40, 0.10, 0.50),
        "interference": "fresh_mean", "backup": 0.97, "melt": 1, "tau_evict": None, "band_C": 0.05,
        "overflow": "reservoir", "scale": "q95", "integrator": "beta", "alpha": 0.2, "sigma": 0.005, "settle": 0.3,
        "clock": "steps", "time_unit": None, "nu": 0.4, "is_exponent": 0.4, "is_steps": None, "every": None,
        "boost": False,
    },
    "paper_robotics": {"alpha": 0.1, "beta": 0.02, "sigma": 0.01, "tau_L": 0.25, "tau_C": 0.65, "delta_t": 1},
    "paper_games": {"alpha": 0.05, "beta": 0.005, "sigma": 0.005, "tau_L": 0.3, "tau_C": 0.7, "delta_t": 1},
    "paper_navigation": {
        "alpha": 0.01, "beta": 0.001, "sigma": 0.002, "tau_L": 0.35, "tau_C": 0.8, "delta_t": 5, "every": 5000,
    },
}  # fmt: skip


def test_the_default_is_what_is_recommended() -> None:
    assert CrystalParams() == CrystalParams.anchored()
    assert CrystalParams(alpha=0.1) == CrystalParams.anchored(alpha=0.1)


def test_without_anchors_only_what_needs_them_changes() -> None:
    assert CrystalParams.unanchored() == CrystalParams(kappa=0.0, settle=None, gate=0.0, nu=0.0, practice=0)
    assert not CrystalParams.unanchored(alpha=0.1).uses_anchors
    assert CrystalParams.repaired().without_anchors().alpha == CrystalParams.repaired().alpha


def test_files_from_before_a_parameter_existed_keep_their_behaviour() -> None:
    given = CrystalParams().to_json()
    del given["borrow"], given["draws_per_experience"]
    loaded = CrystalParams.from_json(given)
    assert (loaded.borrow, loaded.draws_per_experience) == (False, None)
    assert CrystalParams.from_json(CrystalParams().to_json()) == CrystalParams()


@pytest.mark.parametrize("preset", list(EXPECTED))
def test_presets_have_the_expected_values(preset: str) -> None:
    params = PRESETS[preset]()
    assert {name: getattr(params, name) for name in EXPECTED[preset]} == EXPECTED[preset]


def test_presets_of_the_papers_table_have_its_crystal_shares() -> None:
    for preset, share in zip(TABLE, (0.08, 0.06, 0.05), strict=True):
        liquid, glass, crystal = PRESETS[preset](spare=0.0).caps(100_000)
        assert crystal == pytest.approx(share * 100_000, abs=2)
        assert liquid == pytest.approx(2 * glass, abs=3)


def test_presets_of_the_papers_table_stand_on_its_own_rules_and_consolidation_times() -> None:
    """Apart from the rows of the table they are `paper`: one step per episode, so no newcomer leaps over a phase."""
    rows = ("alpha", "beta", "sigma", "tau_L", "tau_C", "capacity", "delta_t", "every_episode")
    for preset, per_episode in zip(TABLE, (True, True, False), strict=True):
        params = PRESETS[preset]()
        assert params.every_episode is per_episode
        assert replace(params, **{name: getattr(CrystalParams.paper(), name) for name in rows}) == CrystalParams.paper()
        assert params.alpha * params.delta_t < params.tau_L  # c after the first step, U = 1


def test_files_from_before_the_letter_load_as_what_they_were() -> None:
    added = ("project", "importance", "spare", "delta_t")
    old = {n: v for n, v in CrystalParams.paper(scale="q95", novelty="grid").to_json().items() if n not in added}
    loaded = CrystalParams.from_json(old)
    assert [getattr(loaded, name) for name in added] == [True, "phase", 0.0, 1.0]
    assert loaded.caps(16_000) == (10_000, 5_000, 1_000)


@pytest.mark.parametrize("preset", list(PRESETS))
def test_presets_take_changes_and_survive_json(preset: str) -> None:
    params = PRESETS[preset](alpha=(0.01, 0.02), kappa={"q": 1.0}, k=3)
    assert params.alpha == (0.01, 0.02)
    assert CrystalParams.from_json(json.loads(json.dumps(params.to_json()))) == params
