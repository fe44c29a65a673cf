"""Differentiable neural dictionaries: random writes and reads against a plain dictionary."""

from __future__ import annotations

import torch

from crystalrl.agents.dictionary import Dictionaries


class Naive:
    """The dictionary of one lane and action: a list of [key, value, time of the last use]."""

    def __init__(self, entries: int) -> None:
        self.entries, self.held = entries, []

    def write(self, key: tuple[float, ...], value: float, time: int) -> None:
        for entry in self.held:
            if entry[0] == key:
                entry[1] += 0.1 * (value - entry[1])
                entry[2] = time
                return
        if len(self.held) < self.entries:
            self.held.append([key, value, time])
        else:
            oldest = min(range(self.entries), key=lambda i: self.held[i][2])
            self.held[oldest] = [key, value, time]


def test_random_writes_are_those_of_a_plain_dictionary() -> None:
    stored = Dictionaries((2, 3, 4), key=2, neighbours=2, delta=1e-3, device=torch.device("cpu"))
    naive = [[Naive(4) for _ in range(3)] for _ in range(2)]
    random = torch.Generator().manual_seed(0)
    for time in range(1, 80):
        h = torch.randint(4, (2, 2), generator=random).float()
        action, value = torch.randint(3, (2,), generator=random), torch.randn(2, generator=random)
        valid = torch.rand(2, generator=random) < 0.8
        stored.write(h, action, value, valid, torch.tensor(time), 0.1)
        for lane in range(2):
            if valid[lane]:
                naive[lane][int(action[lane])].write(tuple(h[lane].tolist()), float(value[lane]), time)
    for lane in range(2):
        for action in range(3):
            held = naive[lane][action].held
            assert int(stored.count[lane, action]) == len(held)
            assert [tuple(key) for key in stored.keys[lane, action, : len(held)].tolist()] == [one[0] for one in held]
            values = torch.tensor([one[1] for one in held])
            torch.testing.assert_close(stored.values[lane, action, : len(held)].detach(), values)
            assert stored.read_at[lane, action, : len(held)].tolist() == [one[2] for one in held]


def test_a_read_at_a_key_is_nearly_its_value_and_without_keys_it_is_zero() -> None:
    stored = Dictionaries((1, 2, 8), key=3, neighbours=8, delta=1e-6, device=torch.device("cpu"))
    h = torch.eye(3)[None]
    assert not stored.read(h)[0].any()
    for i in range(3):
        one = torch.ones(1, dtype=torch.bool)
        stored.write(h[:, i], torch.zeros(1, dtype=torch.int64), torch.tensor([float(i)]), one, torch.tensor(1), 0.1)
    torch.testing.assert_close(stored.read(h)[0][0, :, 0].detach(), torch.arange(3.0), rtol=0, atol=1e-4)
    assert not stored.read(h)[0][0, :, 1].any()


def test_a_read_is_differentiable_in_the_key_the_keys_and_the_values() -> None:
    stored = Dictionaries((1, 1, 4), key=2, neighbours=3, delta=1e-3, device=torch.device("cpu"))
    with torch.no_grad():
        stored.keys[0, 0] = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [3.0, 3.0]])
        stored.values[0, 0] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    stored.count.fill_(4)
    h = torch.tensor([[[0.3, 0.4]]], requires_grad=True)
    by_h, by_keys, by_values = torch.autograd.grad(stored.read(h)[0].sum(), (h, stored.keys, stored.values))
    assert by_h.all()
    assert by_keys[0, 0, :3].all()
    assert not by_keys[0, 0, 3].any()  # not among the three nearest
    torch.testing.assert_close(by_values.sum(), torch.tensor(1.0))
