"""Anchored outputs are captured while the loss computes them."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from crystalrl.integrations.torchrl.taps import Tap, capturing
from tests.integrations.gradients import difference, gradients_of
from tests.integrations.torchrl_models import LOSSES, trained


@pytest.fixture
def layers() -> Iterator[list[nn.Module]]:
    """Linear layers that were evaluated, in order."""
    seen: list[nn.Module] = []

    def note(layer: nn.Module, *_: Any) -> None:
        if isinstance(layer, nn.Linear):
            seen.append(layer)

    handle = register_module_forward_hook(note)
    yield seen
    handle.remove()


@pytest.mark.parametrize("name", LOSSES)
def test_anchors_cost_no_extra_forward_pass_except_for_a_subclass(name: str, layers: list[nn.Module]) -> None:
    """What a subclass computes is unknown, so there the networks run again. Both give the same losses."""
    loss, _sampler, buffer = trained(name)
    batch = buffer.sample()

    def passes(call: Any) -> tuple[Any, int]:
        layers.clear()
        torch.manual_seed(5)
        return call(batch), len(layers)

    _, plain = passes(loss.loss)
    ours, with_taps = passes(loss)
    assert with_taps == plain > 0
    loss.loss.__class__ = type("Own", (type(loss.loss),), {"__module__": "mine"})
    theirs, without_taps = passes(loss)
    assert without_taps > plain
    for key, value in ours.items():
        torch.testing.assert_close(value, theirs[key])
        assert difference(gradients_of(value, loss), gradients_of(theirs[key], loss)) <= 1e-6, key


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_not_changed_by_its_taps(name: str) -> None:
    loss, _sampler, _buffer = trained(name, rounds=1)
    kept = vars(loss.loss) | vars(getattr(loss.loss, "actor_network", loss.loss))
    assert not [name for name, value in kept.items() if getattr(value, "__qualname__", "").startswith("_tapped")]


def test_the_first_accepted_call_is_captured_and_methods_are_restored_even_after_an_error() -> None:
    class Owner:
        def double(self, x: int) -> int:
            return 2 * x

    owner, other = Owner(), SimpleNamespace(double=lambda x: 2 * x)
    before = other.double
    taps = [Tap(each, "double", name, lambda x: x > 1, torch.tensor) for name, each in (("a", owner), ("b", other))]
    found: dict[str, Tensor] = {}

    def use() -> None:
        with capturing(taps) as captured:
            assert [owner.double(x) for x in (1, 2, 3)] == [2, 4, 6]
            assert other.double(5) == 10
            found.update(captured)
            raise KeyError

    with pytest.raises(KeyError):
        use()
    assert {name: int(value) for name, value in found.items()} == {"a": 4, "b": 10}
    assert "double" not in vars(owner)
    assert other.double is before
