"""Links between consecutive steps, compared with a naive twin that remembers every step."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from crystalrl.integrations.tianshou.links import Links, following

SLOTS, ENVS = 7, 2
steps = st.lists(
    st.tuples(st.permutations(range(SLOTS)), st.lists(st.booleans(), min_size=ENVS, max_size=ENVS)), max_size=30
)


def naive(history: list[tuple[list[int], list[bool]]]) -> list[int]:
    """Slot of the next step of each slot, −1 if that step is not stored."""
    content: dict[int, tuple[int, int]] = {}
    ended: dict[tuple[int, int], bool] = {}
    for time, (order, ends) in enumerate(history):
        for env in range(ENVS):
            content[order[env]] = (env, time)
            ended[env, time] = ends[env]
    where = {step: slot for slot, step in content.items()}
    after = [-1] * SLOTS
    for slot, (env, time) in content.items():
        if not ended[env, time]:
            after[slot] = where.get((env, time + 1), -1)
    return after


@settings(max_examples=200)
@given(steps)
def test_links_lead_to_the_stored_next_step_and_back(history: list[tuple[list[int], list[bool]]]) -> None:
    links = Links(SLOTS, ENVS)
    for order, ends in history:
        links.write(np.array(order[:ENVS]), np.arange(ENVS), np.array(ends))
    wanted = naive(history)
    assert links.after.tolist() == wanted
    assert links.before.tolist() == [wanted.index(slot) if slot in wanted else -1 for slot in range(SLOTS)]
    again = Links(SLOTS, ENVS)
    again.load(links.after)
    assert again.after.tolist() == wanted
    assert again.before.tolist() == links.before.tolist()


def test_following_gives_the_same_slot_where_there_is_no_link() -> None:
    links = Links(3, 1)
    for slot, ended in ((0, False), (2, True)):
        links.write(np.array([slot]), np.array([0]), np.array([ended]))
    assert following(links.after, np.arange(3)).tolist() == [2, 1, 2]
    assert following(links.before, np.arange(3)).tolist() == [0, 1, 0]
    links.clear()
    assert following(links.after, np.arange(3)).tolist() == [0, 1, 2]
