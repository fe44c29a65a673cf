"""Headers of files: what they claim is compared with what is stored before anything is allocated for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crystalrl import CheckpointError, CrystalMemory, CrystalParams, PrioritizedMemory, ReservoirMemory, UniformMemory
from crystalrl.memory import ReplayMemory, load_memory
from crystalrl.memory.storage import checkpoint
from crystalrl.memory.storage.header import DEEPEST, parse, refuse_sparse, short, understand
from crystalrl.memory.storage.spec import StorageSpec, storage_to_json
from tests.experience import SMALL, assert_same_state, feed


def memories() -> list[ReplayMemory]:
    kinds: tuple[Any, ...] = (UniformMemory, PrioritizedMemory, ReservoirMemory, CrystalMemory)
    made = [kind(8, **SMALL) for kind in kinds]
    made.append(CrystalMemory(8, params=CrystalParams.anchored(), anchor={"q": (2,)}, **SMALL))
    for memory in made:
        feed(memory, 12)
    return made


MEMORIES = memories()
STATES = [memory.state_dict() for memory in MEMORIES]
FILES = [json.dumps(memory._header()) for memory in MEMORIES]
ODD: list[Any] = [
    None, True, False, "", "dtype", 0, -1, 1, 10**8, 10**30, 10**400, 0.5, 1e308, float("nan"), float("inf"), [], {},
    [1], [10**9], [[1]], {"shape": 3}, {"shape": ["a"]}, {"shape": [10**9]}, {"shape": [0]}, {"dtype": "float32"},
    {"dtype": "nn"}, {"dtype": 3}, {"map": []}, {"map": {}}, {"map": {"a": {"shape": [2]}}}, {"other": 1},
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where the values inside a JSON value are."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return found + [place for key, inner in items for place in places(inner, (*path, key))]


def replaced(header: Any, path: tuple[Any, ...], value: Any) -> Any:
    at = header
    for key in path[:-1]:
        at = at[key]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return header


@settings(max_examples=300, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_header_with_anything_odd_in_it_is_refused_or_gives_a_memory_that_can_be_used(data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(MEMORIES) - 1))
    header = json.loads(FILES[number])
    path = data.draw(st.sampled_from(places(header)))
    header = replaced(header, path, data.draw(st.sampled_from([*ODD, ...])))
    memory, state = MEMORIES[number], STATES[number]
    build, (_, arrays, device) = memory.__reduce__()  # type: ignore[misc]
    try:
        other = build(header, arrays, device)
    except CheckpointError:
        pass
    else:
        other.check()
        assert torch.isfinite(other.sample(4).reward).all()
    assert_same_state(state, memory.state_dict())


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '"x"', "null", "{}x", '{"a": ' + "9" * 5000 + "}"])
def test_what_is_not_an_object_is_refused(text: str) -> None:
    with pytest.raises(CheckpointError, match="header: wanted"):
        parse(text)


@pytest.mark.parametrize("depth", [DEEPEST + 2, 100_000])
def test_deep_nesting_is_refused(depth: int) -> None:
    with pytest.raises(CheckpointError, match="header: wanted"):
        parse('{"kind": ' + "[" * depth + "]" * depth + "}")
    assert parse('{"kind": ' + "[" * 9 + "]" * 9 + "}")


@pytest.mark.parametrize("header", [{}, {"kind": "UniformMemory"}, {"kind": 3, "structure": {}, "params": {}}])
def test_missing_parts_are_named(header: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match=r"header: wanted (kind|structure|params) as"):
        understand(header, STATES[0])


def test_a_file_without_a_header_is_refused(tmp_path: Path) -> None:
    checkpoint.write(tmp_path / "m", {}, STATES[0])
    for load in (load_memory, MEMORIES[0].load):
        with pytest.raises(CheckpointError, match="m: "):
            load(tmp_path / "m")


def test_long_values_are_cut() -> None:
    assert short([1, "a"]) == "[1, 'a']"
    assert len(short("x" * 10_000)) == 301


def test_a_nearly_empty_memory_is_loaded_if_it_is_small_or_built_by_its_user(tmp_path: Path) -> None:
    memory = UniformMemory(100_000, **SMALL)
    feed(memory, 3)
    memory.save(tmp_path / "m")
    assert len(load_memory(tmp_path / "m")) == 3
    with pytest.raises(CheckpointError, match=r"capacity: wanted .* got one of 4 GB"):
        refuse_sparse(understand({**memory._header(), "structure": large(memory)}, memory.state_dict()), STATES[0])


def large(memory: ReplayMemory) -> dict[str, Any]:
    return {**memory._header()["structure"], "capacity": 10**8}


LOAD = """
import resource, sys
from pathlib import Path
import torch
from crystalrl import CheckpointError, load_memory, UniformMemory
import crystalrl.memory.storage.checkpoint, safetensors.torch
for path in Path(sys.argv[1]).iterdir():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        load_memory(path)
    except CheckpointError as error:
        print(path.name, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, path.stat().st_size >> 10)
    else:
        raise SystemExit(f"{path} was loaded")
"""


def test_small_files_that_claim_to_be_large_take_no_memory(tmp_path: Path) -> None:
    """Peak memory grows by no more than twice the file, and some room for the interpreter."""
    claims: dict[str, Any] = {
        "capacity": 10**8,
        "obs": {"shape": [10**9]},
        "lanes": 10**9,
        "action": {"shape": [10**9]},
    }
    claims |= {"envs": 10**6, "n_step": 10**6}
    for number in range(len(MEMORIES)):
        for name, value in claims.items():
            header = replaced(json.loads(FILES[number]), ("structure", name), value)
            checkpoint.write(tmp_path / f"{number}-{name}", header, STATES[number])
    for number in range(2):  # nothing in a memory that is not full depends on its capacity
        memory = type(MEMORIES[number])(8, **SMALL)  # type: ignore[call-arg]
        feed(memory, 3)
        header = replaced(json.loads(FILES[number]), ("structure", "capacity"), 10**8)
        checkpoint.write(tmp_path / f"{number}-sparse", header, memory.state_dict())
    header = replaced(json.loads(FILES[-1]), ("params", "anchor", "q"), [10**9])
    checkpoint.write(tmp_path / "anchor", header, STATES[-1])
    done = subprocess.run([sys.executable, "-c", LOAD, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    grown = {name: int(kilobytes) - 2 * int(size) for name, kilobytes, size in map(str.split, done.stdout.splitlines())}
    assert len(grown) == len(MEMORIES) * len(claims) + 3
    assert max(grown.values()) < 64 << 10, grown


def test_numbers_of_frames_count_in_what_a_file_claims() -> None:
    spec = StorageSpec(10**8, obs=(4, 84, 84), obs_dtype=torch.uint8, action=4, stack=4)
    header = {"kind": "UniformMemory", "structure": storage_to_json(spec), "params": {}}
    state = {"streams.seeds": torch.zeros(1, dtype=torch.int64)}
    with pytest.raises(CheckpointError, match=r"got one of 5.6 GB and hardly anything in the file"):
        refuse_sparse(understand(header, state), state)


@pytest.mark.parametrize("stack", [0, True, "4", 3, 2.0])
def test_a_stack_that_makes_no_sense_is_refused(stack: Any) -> None:
    spec = StorageSpec(10, obs=(4, 2), action=4, stack=4)
    header = {"kind": "UniformMemory", "structure": {**storage_to_json(spec), "stack": stack}, "params": {}}
    with pytest.raises(CheckpointError, match="header: wanted the structure of a memory"):
        understand(header, {"streams.seeds": torch.zeros(1, dtype=torch.int64)})
