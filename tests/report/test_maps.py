"""Maps of experiences."""

import base64
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crystalrl.report import maps
from crystalrl.study.inspection import Inspected, inspect_memory, inspect_run
from crystalrl.theory import Crystallization
from tests.study.test_inspection import saved


@pytest.fixture
def one(ran: Path) -> Inspected:
    return inspect_run(ran)[0][0]


@pytest.mark.usefixtures("without_umap")
def test_a_map_shows_the_contents_at_the_end_and_says_what_is_missing(one: Inspected) -> None:
    pytest.importorskip("sklearn")
    found, missing = maps.maps(one)
    assert [chart.name for chart in found] == ["map-pca", "map-tsne"]
    assert missing == ["UMAP needs the package umap: pip install 'crystalrl[inspect]'"]
    held, _ = maps.last_contents(one)
    assert set(held["step"].tolist()) == {960}
    for chart in found:
        np.testing.assert_array_equal(chart.data["c"], held["c"])
        assert set(chart.colours) < set(chart.data)
        assert "Silhouette" in chart.about
        falls = maps.drifts(one.params, held) < 0
        assert ((chart.data["melting"] == "c falls") == falls).all()
        assert f"those whose c falls melt: {falls.sum()} of these." in chart.about


def test_without_scikit_learn_there_is_still_a_map(one: Inspected, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sklearn", "sklearn.manifold", "sklearn.metrics", "umap"):
        monkeypatch.setitem(sys.modules, name, None)
    found, missing = maps.maps(one)
    assert [chart.name for chart in found] == ["map-pca"]
    assert len(missing) == 2
    assert "Silhouette" not in found[0].about


@pytest.mark.slow
def test_umap_places_the_same_experiences_in_the_same_places() -> None:
    pytest.importorskip("umap")
    points = np.random.default_rng(0).normal(size=(60, 4)) + 8 * np.repeat([0, 1], 30)[:, None]
    first, second = maps.umap(points), maps.umap(points)
    np.testing.assert_array_equal(first, second)


def test_a_click_shows_an_observation_of_few_numbers(one: Inspected) -> None:
    held, _ = maps.last_contents(one)
    (chart,), _ = maps.maps(one, quick=True)
    shown = [[float(number) for number in text.split(", ")] for text in chart.data["observation"]]
    stored = np.stack([held[f"v{k}"] for k in range(len(shown[0]))], axis=1)
    np.testing.assert_allclose(shown, stored, rtol=5e-3)
    assert "observation" not in chart.colours  # nor under the pointer: it would be long
    wide = {f"v{k}": held["v0"] for k in range(maps.NUMBERS + 1)}
    assert maps.shown("observation", "v", wide) == maps.shown("observation", "v", {"c": held["c"]}) == {}


def test_a_click_shows_the_action(one: Inspected) -> None:
    held, _ = maps.last_contents(one)
    (chart,), _ = maps.maps(one, quick=True)
    assert chart.data["action"].tolist() == [f"{action:g}" for action in held["a0"].tolist()]
    assert set(held["a0"].tolist()) <= set(range(5))
    older = replace(one, contents={name: column for name, column in one.contents.items() if name != "a0"})
    assert "action" not in maps.maps(older, quick=True)[0][0].data


def test_pca_keeps_distances_in_the_plane() -> None:
    plane = np.random.default_rng(0).normal(size=(40, 2))
    turned = np.pad(plane, ((0, 0), (0, 3))) @ np.linalg.qr(np.random.default_rng(1).normal(size=(5, 5)))[0]
    placed = maps.pca(turned)
    apart = np.linalg.norm(plane[:, None] - plane, axis=-1)
    np.testing.assert_allclose(np.linalg.norm(placed[:, None] - placed, axis=-1), apart, atol=1e-9)


@pytest.mark.usefixtures("without_umap")
def test_of_many_experiences_a_part_is_shown_the_same_each_time_and_the_map_says_so(tmp_path: Path) -> None:
    saved(tmp_path / "memory.safetensors", count=3000, slots=3000)
    one = inspect_memory(tmp_path / "memory.safetensors", most=2500)
    (first, at), (second, _) = (maps.last_contents(one) for _ in range(2))
    assert len(at) == maps.MOST
    assert first["slot"].tolist() == second["slot"].tolist()
    drawn = maps._map(one, first, at, "PCA", maps.pca(maps.vectors(first)))
    assert drawn.about.startswith("2,000 of 3,000 experiences, evenly spaced over the slots.")


def test_a_frame_becomes_a_picture() -> None:
    frame = np.arange(12, dtype=np.uint8).reshape(3, 4)
    data = base64.b64decode(maps.png(frame).partition(",")[2])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    inside = data[data.index(b"IDAT") + 4 :]
    rows = np.frombuffer(zlib.decompressobj().decompress(inside), np.uint8).reshape(3, 5)
    np.testing.assert_array_equal(rows[:, 1:], frame)
    shown = maps.pictures(np.zeros((1000, 2, 2), np.uint8))
    assert sum(bool(address) for address in shown) == maps.FRAMES


def test_the_change_of_c_is_the_drift_of_the_law(one: Inspected) -> None:
    held, _ = maps.last_contents(one)
    for params in (one.params, replace(one.params, melt=None)):
        change = maps.drifts(params, held)
        for k in range(0, len(change), 17):
            law = Crystallization.of(params, float(held["utility"][k]), float(held["interference"][k]))
            c = float(held["c"][k])
            assert change[k] == pytest.approx(law.rates.gain * (1 - c) - law.rates.loss * c, abs=1e-7)
