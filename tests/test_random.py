"""Random numbers: all implementations agree, and the numbers look random."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from crystalrl.backends.splitmix import mix_int
from crystalrl.random import (
    Stream,
    Streams,
    beta_variates,
    element_bits,
    lane_key,
    lane_seeds,
    mix,
    standard_gamma,
    start_of,
    to_unit,
)
from tests.conftest import computing_with
from tests.reference import uniforms

LEAST_P = 1e-3
SEEDS = [0, 1, 2, 12345, 2**40, 2**63 - 1]


def torch_uniform(seeds: list[int], stream: Stream, tick: int, size: int) -> torch.Tensor:
    """The torch path, as it runs on CUDA, but on CPU."""
    streams = Streams(seeds)
    start = start_of(streams.keys[stream], torch.tensor(tick))
    return to_unit(element_bits(start[:, None], torch.arange(size)))


@pytest.mark.parametrize("stream", list(Stream))
def test_torch_numpy_numba_and_plain_python_agree_bit_for_bit(stream: Stream) -> None:
    compiled = Streams(SEEDS)
    with computing_with("numpy"):
        plain = Streams(SEEDS)
    for tick, size in enumerate([1, 7, 64, 1000]):
        got = compiled.uniform(stream, size)
        assert torch.equal(got, plain.uniform(stream, size))
        assert torch.equal(got, torch_uniform(SEEDS, stream, tick, size))
        assert got.tolist() == [uniforms(seed, stream, tick, size) for seed in SEEDS]


def test_mix_of_tensors_equals_mix_of_python_integers() -> None:
    values = [0, 1, 2**63 - 1, 2**63, 2**64 - 1, 0x9E3779B97F4A7C15]
    signed = np.array(values, dtype=np.uint64).view(np.int64)
    wanted = np.array([mix_int(v) for v in values], dtype=np.uint64)
    assert np.array_equal(mix(torch.from_numpy(signed.copy())).numpy().view(np.uint64), wanted)


def test_state_is_one_integer_per_stream(backend: str) -> None:
    first = Streams([3, 4])
    for stream, ticks in ((Stream.DRAW, 5), (Stream.KEY, 2)):
        for _ in range(ticks):
            first.uniform(stream, 11)
    assert first.ticks.tolist() == [5, 0, 2, 0, 0, 0, 0, 0, 0]
    assert set(first.tensors()) == {"ticks", "seeds"}
    second = Streams([0, 0])
    for name, tensor in second.tensors().items():
        tensor.copy_(first.tensors()[name])
    second.refresh()
    for stream in Stream:
        assert torch.equal(first.uniform(stream, 9), second.uniform(stream, 9))


def test_a_number_depends_neither_on_how_many_are_drawn_nor_on_other_lanes(backend: str) -> None:
    alone, among = Streams([7]), Streams([3, 7, 7, 1])
    for size in (5, 17):
        one, many = alone.uniform(Stream.DRAW, size), among.uniform(Stream.DRAW, size + 3)
        assert torch.equal(one[0], many[1, :size])
        assert torch.equal(many[1], many[2])


def test_uniforms_lie_in_the_half_open_interval_and_are_multiples_of_two_to_the_minus_53() -> None:
    u = Streams([0]).uniform(Stream.DRAW, 100_000)
    assert u.min() >= 0
    assert u.max() < 1
    assert torch.equal(u * 2.0**53, (u * 2.0**53).round())
    assert to_unit(torch.tensor([-1])).item() == 1 - 2.0**-53


def chi_square(u: np.ndarray, cells: int) -> float:
    return stats.chisquare(np.bincount((u * cells).astype(int), minlength=cells)).pvalue


@pytest.mark.parametrize("cells", [2, 10, 1024])
@pytest.mark.parametrize("seed", [0, 1, 99])
def test_uniforms_fill_all_cells_equally(seed: int, cells: int) -> None:
    assert chi_square(Streams([seed]).uniform(Stream.DRAW, 200_000).numpy()[0], cells) > LEAST_P


def test_low_bits_are_as_random_as_high_ones() -> None:
    u = Streams([8]).uniform(Stream.DRAW, 200_000).numpy()[0]
    assert chi_square((u * 2.0**37) % 1.0, 64) > LEAST_P


def by_element() -> np.ndarray:
    return Streams([5]).uniform(Stream.DRAW, 100_000).numpy()[0]


def by_tick() -> np.ndarray:
    streams = Streams([5])
    return np.concatenate([streams.uniform(Stream.DRAW, 1).numpy()[0] for _ in range(20_000)])


def by_lane() -> np.ndarray:
    return Streams(range(20_000)).uniform(Stream.DRAW, 1).numpy()[:, 0]


def by_event() -> np.ndarray:
    return Streams([5]).at(Stream.PLACE, torch.arange(100_000)[None]).numpy()[0]


@pytest.mark.parametrize("along", [by_element, by_tick, by_lane, by_event])
def test_successive_numbers_are_uniform_and_uncorrelated_along_every_axis(along: object) -> None:
    u = along()
    assert chi_square(u, 100) > LEAST_P
    for lag in (1, 2, 3, 16, 256):
        z = np.corrcoef(u[:-lag], u[lag:])[0, 1] * np.sqrt(len(u) - lag)
        assert abs(z) < 3.9, lag
    pairs = (u[:-1] * 16).astype(int) * 16 + (u[1:] * 16).astype(int)
    assert stats.chisquare(np.bincount(pairs[::2], minlength=256)).pvalue > LEAST_P


def sequences() -> dict[str, np.ndarray]:
    """Sequences that differ in exactly one of (seed, stream, tick)."""
    size = 50_000
    streams = Streams([4, 5, 6])
    out = {f"lane {s}": row for s, row in zip((4, 5, 6), streams.uniform(Stream.DRAW, size).numpy(), strict=True)}
    out |= {f"tick {k}": streams.uniform(Stream.DRAW, size).numpy()[0] for k in (1, 2)}
    out |= {f"stream {s.name}": Streams([4]).uniform(s, size).numpy()[0] for s in Stream if s != Stream.DRAW}
    return out


def test_lanes_ticks_and_streams_are_independent_of_each_other() -> None:
    kept = sequences()
    for (a, u), (b, v) in itertools.combinations(kept.items(), 2):
        assert not np.intersect1d(u, v).size, (a, b)
        assert abs(np.corrcoef(u, v)[0, 1]) * np.sqrt(len(u)) < 4.2, (a, b)
        table = np.bincount((u * 8).astype(int) * 8 + (v * 8).astype(int), minlength=64).reshape(8, 8)
        assert stats.chi2_contingency(table).pvalue > 1e-4, (a, b)


def test_seeds_that_differ_in_one_bit_give_keys_that_differ_in_half_of_them() -> None:
    flips = [
        (lane_key(seed, stream) ^ lane_key(seed ^ (1 << bit), stream)).bit_count()
        for seed in range(20)
        for stream in Stream
        for bit in range(63)
    ]
    assert abs(np.mean(flips) - 32) < 0.2
    assert min(flips) > 8


def test_lane_keys_do_not_collide() -> None:
    keys = {lane_key(seed, stream) for seed in range(20_000) for stream in Stream}
    assert len(keys) == 20_000 * len(Stream)


def test_the_uniform_of_an_event_depends_only_on_its_number_and_takes_no_tick() -> None:
    streams = Streams([1, 2])
    number = torch.tensor([[0, 5, 9], [9, 0, 5]])
    u = streams.at(Stream.PLACE, number)
    assert streams.ticks.sum() == 0
    again = streams.at(Stream.PLACE, number.flip(1)).flip(1)
    assert torch.equal(u, again)
    assert torch.equal(u[1, :1], Streams([2]).at(Stream.PLACE, torch.tensor([[9]]))[0])


def test_normals_are_normal_and_independent_across_lanes() -> None:
    x = Streams([0, 1]).normal(Stream.NOISE, 100_000).numpy()
    for row in x:
        assert stats.kstest(row, "norm").pvalue > LEAST_P
    assert abs(np.corrcoef(x)[0, 1]) * np.sqrt(x.shape[1]) < 3.9


SHAPES = [0.05, 0.1, 0.5, 0.99, 1.0, 1.5, 3.0, 20.0, 300.0, 2000.0]
COUNT = 20_000


@pytest.mark.parametrize("shape", SHAPES)
def test_gamma_variates_follow_the_gamma_law(shape: float) -> None:
    start = Streams([int(shape * 100)]).next_start(Stream.NOISE)
    x = standard_gamma(torch.tensor(shape), start, torch.arange(COUNT)).numpy()
    assert stats.kstest(x, stats.gamma(shape).cdf).pvalue > LEAST_P


@pytest.mark.parametrize(("p", "q"), [*itertools.product([0.05, 0.7, 4.0, 2000.0], repeat=2)])
def test_beta_variates_follow_the_beta_law(p: float, q: float) -> None:
    start = Streams([17]).next_start(Stream.NOISE)
    x = beta_variates(torch.tensor(p), torch.tensor(q), start, torch.arange(COUNT)).numpy()
    assert np.isfinite(x).all()
    assert (x >= 0).all()
    assert (x <= 1).all()
    law, near = stats.beta(p, q), 1 - 1e-9  # closer to 1, float64 is too coarse for a small q
    inside = x[x < near]
    assert stats.binomtest(len(inside), COUNT, law.cdf(near)).pvalue > LEAST_P
    if len(inside):
        assert stats.kstest(inside, lambda at: law.cdf(at) / law.cdf(near)).pvalue > LEAST_P


def test_beta_variates_of_tiny_shapes_are_zero_or_one_in_the_right_proportion() -> None:
    start = Streams([2]).next_start(Stream.NOISE)
    p, q = torch.tensor(3e-5, dtype=torch.float64), torch.tensor(1e-5, dtype=torch.float64)
    x = beta_variates(p, q, start, torch.arange(COUNT)).numpy()
    assert np.isfinite(x).all()
    ones = int((x > 0.5).sum())
    assert stats.binomtest(ones, COUNT, 0.75).pvalue > LEAST_P


def test_a_gamma_variate_depends_only_on_its_start_and_element() -> None:
    start = Streams([1, 2, 3]).next_start(Stream.NOISE)[:, None]
    shape = torch.tensor([0.2, 1.0, 7.0])[:, None].expand(3, 50)
    together = standard_gamma(shape, start, torch.arange(50))
    for lane, element in ((0, 0), (1, 49), (2, 13)):
        alone = standard_gamma(shape[lane, element], start[lane], torch.tensor(element))
        assert torch.equal(together[lane, element], alone.squeeze())


def test_neighbouring_gamma_variates_are_independent() -> None:
    start = Streams([11]).next_start(Stream.NOISE)
    x = standard_gamma(torch.tensor(2.0), start, torch.arange(50_000)).numpy()
    for lag in (1, 2, 3):
        rank = stats.spearmanr(x[:-lag], x[lag:]).statistic
        assert abs(rank) * np.sqrt(len(x)) < 3.9


def test_one_seed_gives_each_lane_the_next_integer() -> None:
    assert lane_seeds(5, 3) == [5, 6, 7]
    assert lane_seeds([9, 9, 2], 3) == [9, 9, 2]


@pytest.mark.parametrize(("seed", "lanes", "message"), [([1, 2], 3, "3 integers"), (-1, 1, "≥ 0"), ([0, -4], 2, "≥ 0")])
def test_invalid_seeds_are_refused(seed: object, lanes: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lane_seeds(seed, lanes)


def test_a_single_event_on_the_host_has_the_same_number_as_in_a_batch() -> None:
    streams = Streams([7, 8])
    many = streams.at(Stream.PLACE, torch.arange(1000).expand(2, -1))[0].tolist()
    assert [streams.one_at(Stream.PLACE, number) for number in range(1000)] == many
