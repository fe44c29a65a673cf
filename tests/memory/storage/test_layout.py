"""Where the fields of a transition lie in its row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crystalrl import Transition, UniformMemory
from crystalrl.memory.storage.layout import WORD, Layout, stored_layout
from crystalrl.memory.storage.spec import StorageSpec
from tests.memory.storage.structures import DTYPES, actions, parts, spec_of


@given(kinds=parts, action=actions, action_dtype=st.sampled_from(DTYPES), context=st.booleans())
def test_fields_are_aligned_and_never_overlap(
    kinds: dict[str, Any], action: Any, action_dtype: torch.dtype, context: bool
) -> None:
    layout = Layout(spec_of(kinds, action, action_dtype, context))
    used: set[int] = set()
    for field in layout.fields.values():
        itemsize = field.dtype.itemsize
        begin = field.stop - int(np.prod(field.shape)) * itemsize
        assert begin % itemsize == 0
        place = set(range(begin, field.stop))
        assert not place & used
        used |= place
    assert used == set(range(len(used)))
    assert len(used) <= layout.words * WORD < len(used) + WORD


def test_a_plain_row_has_no_padding_beyond_a_word() -> None:
    layout = Layout(StorageSpec(5, obs=(17,), action=(6,)))
    assert layout.words == -(-(17 * 8 + 6 * 4 + 4 + 4 + 1) // 8)


@pytest.mark.parametrize(
    ("real", "whole"), [(torch.float16, torch.int16), (torch.float32, torch.int32), (torch.float64, torch.int64)]
)
def test_integers_between_floats_are_not_taken_for_floats(real: torch.dtype, whole: torch.dtype) -> None:
    memory = UniformMemory(4, obs={"a": (), "b": (), "c": ()}, obs_dtype={"a": real, "b": whole, "c": real}, action=2)
    obs = {"a": 1.5, "b": -1, "c": 2.5}  # the bits of −1 are those of NaN
    memory.add(Transition(obs, 0, 0.0, obs, False))
    assert memory.sample(1).obs["b"].item() == -1


def test_views_of_numpy_and_torch_are_the_same_bytes() -> None:
    spec = StorageSpec(5, obs={"b": (2, 2), "a": ()}, obs_dtype={"b": torch.uint8, "a": torch.float64}, action=(3,))
    layout = Layout(spec)
    rows = np.zeros((4, layout.words), np.int64)
    views = layout.numpy_views(rows)
    assert [*views] == [*layout.fields]
    for number, view in enumerate(views.values()):
        view[...] = np.arange(view.size).reshape(view.shape) % 50 + number
    for name, tensor in layout.torch_views(torch.from_numpy(rows)).items():
        field = layout.fields[name]
        assert tuple(tensor.shape) == (4, *field.shape) == views[name].shape, name
        assert tensor.dtype == field.dtype
        assert np.array_equal(tensor.numpy(), views[name]), name
    assert "ending" not in layout.numpy_views(rows, without="ending")


def test_what_must_be_finite_is_every_float_and_nothing_else() -> None:
    kinds = {"a": torch.float64, "b": torch.int64, "c": torch.float32, "d": torch.uint8, "e": torch.float16}
    layout = Layout(StorageSpec(5, obs=dict.fromkeys(kinds, (2,)), obs_dtype=kinds, action=2, context=True))
    rows = np.zeros((3, layout.words), np.int64)
    for name, view in layout.numpy_views(rows).items():
        view[...] = 1
        spans = [*layout.float_spans(rows), *(part.numpy() for part in layout.float_parts(torch.from_numpy(rows)))]
        seen = sum(int((span != 0).sum()) for span in spans)
        assert seen == (2 * view.size if view.dtype.kind == "f" else 0), name
        view[...] = 0


def test_stored_rows_hold_numbers_of_frames_instead_of_pixels() -> None:
    whole = StorageSpec(10, obs=(4, 84, 84), obs_dtype=torch.uint8, action=2)
    assert stored_layout(whole).fields == Layout(whole).fields
    stored = stored_layout(StorageSpec(10, obs=(4, 84, 84), obs_dtype=torch.uint8, action=2, stack=4))
    first, last = stored.fields["obs"], stored.fields["next_obs"]
    assert (first.shape, first.dtype) == (last.shape, last.dtype) == ((4,), torch.int32)
    assert last.begin == first.begin + 4
    assert stored.words == 7
