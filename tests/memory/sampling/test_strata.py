"""How the places of a batch are divided among the phases."""

from __future__ import annotations

import torch

from crystalrl.memory.sampling.strata import BatchStrata, quotas


def test_a_batch_is_shared_by_largest_remainder_and_absent_phases_give_theirs_away() -> None:
    present = torch.tensor([[True, True, True], [True, False, True], [False, False, True]])
    assert quotas((0.7, 0.25, 0.05), "largest_remainder", 256, present).tolist() == [
        [179, 64, 13],
        [239, 0, 17],
        [0, 0, 256],
    ]


def test_the_papers_split_floors_and_gives_the_rest_to_liquid() -> None:
    present = torch.tensor([[True, True, True], [True, True, False], [False, True, True]])
    assert quotas((0.7, 0.25, 0.05), "floor", 10, present).tolist() == [[7, 2, 1], [8, 2, 0], [0, 9, 1]]


def test_quotas_always_sum_to_the_batch() -> None:
    present = torch.tensor([[a, b, c] for a in (True, False) for b in (True, False) for c in (True, False)][:-1])
    for size in range(1, 300):
        for split in ("floor", "largest_remainder"):
            for shares in ((0.7, 0.25, 0.05), (0.4, 0.1, 0.5), (1.0, 0.0, 0.0)):
                given = quotas(shares, split, size, present)
                assert bool((given >= 0).all())
                assert given.sum(-1).tolist() == [size] * 7, (size, split, shares)
                assert bool((given[~present] == 0).all())


def test_places_are_filled_in_the_order_of_the_phases() -> None:
    strata = BatchStrata((0.5, 0.25, 0.25), "largest_remainder")
    filled = torch.tensor([[9.0, 9.0, 9.0], [9.0, 0.0, 9.0]], dtype=torch.float64)
    assert strata.of(4, filled).tolist() == [[0, 0, 1, 2], [0, 0, 0, 2]]


def test_a_refresh_changes_the_places_of_every_size_in_place() -> None:
    strata = BatchStrata((0.5, 0.25, 0.25), "largest_remainder")
    full, liquid = (torch.tensor([counts], dtype=torch.float64) for counts in ([9.0, 9.0, 9.0], [9.0, 0.0, 0.0]))
    small, large = strata.of(4, full), strata.of(8, full)
    strata.refresh(liquid)
    assert strata.of(4, full) is small
    assert strata.of(8, full) is large
    assert small.tolist() == [[0] * 4]
    assert large.tolist() == [[0] * 8]


def test_importance_within_the_whole_memory_counts_n_times_the_share_of_the_batch() -> None:
    """(n·p)^(−β) with n = N · quota/B: P is the probability that a place of the batch holds this experience."""
    filled = torch.tensor([[10.0, 5.0, 1.0], [12.0, 0.0, 4.0]], dtype=torch.float64)
    for importance in ("phase", "memory"):
        strata = BatchStrata((0.5, 0.25, 0.25), "largest_remainder", importance)
        counts = strata.counts(strata.of(8, filled), filled)
        wanted = [[8.0, 4.0, 4.0], [10.0, 0.0, 6.0]]  # 5 and 3 of the second lane's 8 places
        assert counts.tolist() == (filled.tolist() if importance == "phase" else wanted)
