"""The columns of the stored tables."""

from crystalrl.study.schema import ALL, DETAILS, TABLES


def test_the_scores_are_written_last_because_they_make_a_run_complete() -> None:
    assert list(ALL)[-1] == list(TABLES)[-1] == "scores"
    assert not set(DETAILS) & set(TABLES)


def test_every_table_says_which_learner_a_line_belongs_to() -> None:
    for columns in ALL.values():
        assert list(columns)[:3] == ["cell", "method", "seed"]
        assert {"task", "seed"} <= set(columns)
        assert set(columns.values()) <= {"s", "i", "f"}
