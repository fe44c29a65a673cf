"""Dark experience replay++: DER with the TD loss of old experiences. `test_der` has the explicit loss."""

import pytest
import torch

from crystalrl.methods.derpp import DERPPParams
from tests.methods.runs import play, trainer


def test_without_the_td_loss_of_the_buffer_it_is_der() -> None:
    made = [trainer("der"), trainer("derpp", method_params={"beta": 0.0})]
    for one in made:
        one.begin(0)
        play(one, 40)
    assert torch.equal(made[0].agent.theta, made[1].agent.theta)


def test_a_negative_factor_is_refused() -> None:
    with pytest.raises(ValueError, match="beta: wanted numbers ≥ 0, got -1"):
        DERPPParams(beta=-1)
