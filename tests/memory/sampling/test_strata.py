"""How the places of a batch are divided among the phases."""

from __future__ import annotations

import torch

from crystalrl.memory.sampling.strata import BatchStrata, quotas


def test_a_batch_is_shared_by_largest_remainder_and_absent_phases_give_theirs_away() -> None:
    present = torch.tensor([[True, True, True], [True, False, True], [False, False, True]])
    assert quotas((0.7, 0.25, 0.05), "largest_remainder", 256, present.to(torch.float64)).tolist() == [
        [179, 64, 13],
        [239, 0, 17],
        [0, 0, 256],
    ]


def test_the_papers_split_floors_and_gives_the_rest_to_liquid() -> None:
    present = torch.tensor([[True, True, True], [True, True, False], [False, True, True]])
    assert quotas((0.7, 0.25, 0.05), "floor", 10, present.to(torch.float64)).tolist() == [
        [7, 2, 1],
        [8, 2, 0],
        [0, 9, 1],
    ]


def test_quotas_always_sum_to_the_batch() -> None:
    present = torch.tensor([[a, b, c] for a in (True, False) for b in (True, False) for c in (True, False)][:-1])
    for size in range(1, 300):
        for split in ("floor", "largest_remainder"):
            for shares in ((0.7, 0.25, 0.05), (0.4, 0.1, 0.5), (1.0, 0.0, 0.0)):
                given = quotas(shares, split, size, present.to(torch.float64))
                assert bool((given >= 0).all())
                assert given.sum(-1).tolist() == [size] * 7, (size, split, shares)
                assert bool((given[~present] == 0).all())


def test_places_are_filled_in_the_order_of_the_phases() -> None:
    strata = BatchStrata((0.5, 0.25, 0.25), "largest_remainder")
    filled = torch.tensor([[9.0, 9.0, 9.0], [9.0, 0.0, 9.0]], dtype=torch.float64)
    assert strata.of(4, filled).tolist() == [[0, 0, 1, 2], [0, 0, 0, 2]]


def test_a_single_stratum_gets_every_place() -> None:
    filled = torch.tensor([[1.0], [40.0]], dtype=torch.float64)
    strata = BatchStrata((1.0,), "largest_remainder")
    places = strata.of(5, filled)
    assert places.dtype == torch.uint8
    assert places.tolist() == [[0] * 5] * 2
    assert strata.counts(places, filled) is filled


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
        strata = BatchStrata((0.5, 0.25, 0.25), "largest_remainder", importance=importance)
        found = strata.counts(strata.of(8, filled), filled)
        wanted = [[8.0, 4.0, 4.0], [10.0, 0.0, 6.0]]  # 5 and 3 of the second lane's 8 places
        assert found.tolist() == (filled.tolist() if importance == "phase" else wanted)


def counts(*rows: tuple[float, float, float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def test_a_phase_gets_no_more_draws_than_it_holds_experiences() -> None:
    """One crystal no longer takes half of every batch; what it cannot use goes to the others."""
    shares, size = (0.4, 0.1, 0.5), 128
    filled = counts((1000, 0, 1), (1000, 5, 40), (1000, 1000, 1000), (3, 0, 5000))
    given = quotas(shares, "largest_remainder", size, filled, limit=1.0)
    assert given.tolist() == [[127, 0, 1], [83, 5, 40], [51, 13, 64], [3, 0, 125]]


def test_where_everything_is_scarce_all_experiences_are_drawn_equally_often() -> None:
    given = quotas((0.4, 0.1, 0.5), "largest_remainder", 120, counts((3, 2, 1)), limit=1.0)
    assert given.tolist() == [[60, 40, 20]]


def test_bounded_quotas_sum_to_the_batch_and_keep_their_bounds() -> None:
    rng = torch.Generator().manual_seed(0)
    for limit in (0.5, 1.0, 3.0):
        filled = torch.randint(0, 60, (400, 3), generator=rng).to(torch.float64)
        filled[:, 0] += filled.sum(-1) == 0
        for size in (1, 7, 64):
            given = quotas((0.4, 0.1, 0.5), "largest_remainder", size, filled, limit)
            assert given.sum(-1).tolist() == [size] * 400
            assert bool((given[filled == 0] == 0).all())
            enough = filled.sum(-1) * limit >= size
            assert bool((given <= (filled * limit).ceil())[enough].all())


def test_a_new_liquid_experience_changes_the_places_only_while_liquid_is_scarce() -> None:
    strata = BatchStrata((0.4, 0.1, 0.5), "largest_remainder", limit=1.0)
    strata.of(64, counts((5, 0, 1000)))
    strata.refresh(counts((6, 0, 1000)))
    assert strata.scarce
    assert strata.of(64, counts((6, 0, 1000))).eq(0).sum() == 6
    strata.refresh(counts((65, 0, 1000)))
    assert not strata.scarce
    assert strata.fractions(counts((65, 0, 1000))).tolist() == [[28 / 64, 0.0, 36 / 64]]
