"""Holm's correction is that of statsmodels, whose function collects garbage at every call."""

import gc

import numpy as np
from statsmodels.stats.multitest import multipletests

from crystalrl.study.stats import holm


def test_holm_is_that_of_statsmodels_to_the_last_digit() -> None:
    random = np.random.default_rng(6)
    gc.freeze()
    for count in range(1, 41):
        p = random.random(count) ** 4
        p[random.random(count) < 0.3] = p[0]  # ties
        assert holm(list(p)) == multipletests(p, method="holm")[1].tolist()
    gc.unfreeze()
