"""Dark experience replay++: DER with the TD loss of old experiences. `test_der` has the explicit loss."""

import pytest
import torch

from crystalrl.methods.derpp import DERPPParams
from tests.methods.runs import play, scores, trainer


def test_without_the_td_loss_of_the_buffer_it_is_der() -> None:
    made = [trainer("der"), trainer("derpp", method_params={"beta": 0.0})]
    for one in made:
        one.begin(0)
        play(one, 40)
    assert torch.equal(made[0].agent.theta, made[1].agent.theta)


def test_a_negative_factor_is_refused() -> None:
    with pytest.raises(ValueError, match="beta: wanted numbers ≥ 0, got -1"):
        DERPPParams(beta=-1)


@pytest.mark.slow
def test_it_retains_what_fine_tuning_forgets() -> None:
    fields = {"suite": "nav-3", "seeds": (0, 1, 2, 3), "steps": 4500, "capacity": 450, "batch": 64}
    fields["agent_params"] = {"width": 64}
    plain = scores(method="finetune", **fields)
    pulled = scores(method="derpp", memory="reservoir", **fields)
    assert pulled[:, 3, :2].mean() > plain[:, 3, :2].mean() + 0.1
