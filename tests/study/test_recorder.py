"""From events to rows of tables."""

from pathlib import Path

import numpy as np
import pytest

from crystalrl.study.execution import execute
from crystalrl.study.plan import plan
from crystalrl.study.run import Consolidated
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import Store, read

SMALL = {"suite": "nav-2", "steps": 160, "capacity": 64, "batch": 16, "episodes": 2, "points": 1}


@pytest.mark.parametrize("every_episode", [False, True])
def test_the_memory_table_has_a_row_for_every_consolidation_of_every_learner(
    tmp_path: Path, every_episode: bool
) -> None:
    params = {"every": 80, "every_episode": every_episode}
    spec = RunSpec(memory="crystal", preset="paper", seeds=(3, 5), params=params, **SMALL)
    groups = plan({"row": spec})
    told = [e for _, e in execute(groups, Store(tmp_path, "")) if isinstance(e, Consolidated)]
    assert every_episode or [event.done for event in told] == [80, 160, 240, 320]
    memory = read(tmp_path, "memory")
    begun = memory["step"] == 0
    assert memory["seed"][begun].tolist() == [3, 5]
    assert (memory["nbytes"] == memory["nbytes"][0]).all()
    for lane, seed in enumerate((3, 5)):
        mine = (memory["seed"] == seed) & ~begun
        due = [event for event in told if event.values["evaluated"][lane] > 0]
        assert memory["step"][mine].tolist() == [event.done for event in due]
        assert memory["task"][mine].tolist() == [(event.done - 1) // 160 for event in due]
        for name in told[0].values:
            np.testing.assert_array_equal(memory[name][mine], np.float32([e.values[name][lane] for e in due]))
