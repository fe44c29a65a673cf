"""Evidence about time and memory: sums over the paper's own table, and bytes of arrays."""

from __future__ import annotations

import numpy as np

from crystalrl.theory.claims.cost_claims import CLAIMS
from tests.theory.claims.evidence import assert_has


def test_the_times_are_those_of_the_printed_table() -> None:
    build, queries = {"1e5": 0.05, "1e6": 0.5}, {"1e5": 0.8, "1e6": 8.2}
    small, large = build["1e5"] + queries["1e5"], build["1e6"] + queries["1e6"]
    assert_has(CLAIMS, "Table knn_complexity", ("0.5", f"{large:.1f}", "8.2"))
    assert_has(CLAIMS, "kNN, amortised", ("0.85", f"{small / 200 * 1e3:.2f}", f"{small / 200 * 1e3 / 0.15:.0f}"))
    slope = np.polyfit([5, 6], np.log10([small, large]), 1)[0]
    assert_has(CLAIMS, "Complexity", (f"N^{slope:.2f}", f"{np.log2(1e6):.0f}"))
    assert_has(CLAIMS, "kNN, 10 % sample", (f"{large * 0.1:.2f}", f"{build['1e6'] + queries['1e6'] * 0.1:.2f}"))


def test_a_tuple_takes_the_bytes_of_its_arrays() -> None:
    parts = [np.zeros(n, np.float32) for n in (39, 4, 1, 39, 1)]
    size = sum(part.nbytes for part in parts)
    assert_has(CLAIMS, "Memory size", (f"{size}", f"{380e6 / size:.1e}", f"{1e9 / size:.1e}"))
    counters = np.zeros(1000, np.float32).nbytes + np.zeros(1000, np.uint8).nbytes
    assert_has(CLAIMS, "Memory overhead", (f"{counters * 1e3 / 1e6:.0f}", f"{parts[0].nbytes * 1e6 / 1e6:.0f}"))


def test_a_sweep_per_episode_costs_a_third_of_the_training_or_more() -> None:
    """Two passes per experience; a SAC update of 256 makes about 12 passes per sample."""
    assert_has(CLAIMS, "Overhead", (f"{2 * 1e5 / 200 / (12 * 256):.0%}", f"{2 * 1e6 / 200 / (12 * 256):.0%}"))


def test_two_thirds_of_the_work_must_overlap() -> None:
    assert_has(CLAIMS, "Asynchronous", (f"{10 / 15:.0%}",))
