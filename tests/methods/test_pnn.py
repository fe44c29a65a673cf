"""Progressive networks: old columns stay as they are, and columns read earlier ones through adapters only."""

import pytest
import torch

from tests.methods.runs import ALL_AGENTS, play, practise, scores, trainer


@pytest.mark.parametrize("agent", ALL_AGENTS)
def test_old_columns_and_their_outputs_are_unchanged(agent: str) -> None:
    made = trainer("pnn", agent)
    obs = torch.randn(2, 50, *made.suite.obs, generator=torch.Generator().manual_seed(0))
    seen = {}
    for task in range(3):
        practise(made, task)
        for old, outputs in seen.items():
            again = made.agent.network(made.agent.theta, obs, torch.full((2, 50), old))
            assert torch.equal(again, outputs)
        seen[task] = made.agent.network(made.agent.theta, obs, torch.full((2, 50), task)).detach().clone()


def moved(before, after, layer: int) -> torch.Tensor:
    """bool[in, out]: which weights of a layer changed in any lane."""
    return (after[layer][0] != before[layer][0]).any(0)


def only(changed: torch.Tensor, where: torch.Tensor) -> bool:
    """Whether something changed there (units may be dead) and nothing elsewhere."""
    return bool(changed[where].any()) and not bool(changed[~where].any())


def test_only_the_column_of_the_task_its_adapters_and_its_head_are_trained() -> None:
    made = trainer("pnn")  # 12 units: columns of 4; layers: two hidden, heads, then V and U of each adapter
    practise(made, 0)
    made.begin(1)
    before = made.agent.network.split(made.agent.theta.detach().clone())
    play(made)
    after, column = made.agent.network.split(made.agent.theta.detach()), torch.arange(12) // 4
    assert only(moved(before, after, 0).any(0), column == 1)
    own = (column[:, None] == 1) & (column == 1)
    assert only(moved(before, after, 1), own)
    for down, up in ((3, 4), (5, 6)):
        assert only(moved(before, after, down).any(1), column == 0)
        assert only(moved(before, after, down).any(0), column == 1)
        scale = (after[down][1] != before[down][1]).any(0).squeeze(0)
        assert scale.nonzero().flatten().tolist() == [4]  # one for the whole group
        assert only(moved(before, after, up).any(1), column == 1)
    heads = moved(before, after, 2)  # [in, heads · actions]
    assert only(heads.any(1), column == 1)
    assert heads.any(0).nonzero().flatten().tolist() == [5, 6, 7, 8, 9]


def test_outputs_are_those_of_the_columns_computed_one_by_one() -> None:
    """h_i of column k = relu(W h_{i-1} of k + U relu(α V h_{i-1} of the columns before) + b), for every head."""
    made = trainer("pnn")
    for task in range(3):
        practise(made, task)
    obs = torch.randn(2, 5, *made.suite.obs, generator=torch.Generator().manual_seed(0))
    layers = [(w[0], b[0, 0]) for w, b in made.agent.network.split(made.agent.theta.detach())]
    part = [slice(4 * k, 4 * k + 4) for k in range(3)]

    def adapted(h: list[torch.Tensor], k: int, down: int, out: slice) -> torch.Tensor:
        (v, scale), (u, _) = layers[down], layers[down + 1]
        read = sum(h[j] @ v[part[j], part[k]] for j in range(k)) if k else torch.zeros(5, 4)
        return torch.relu(scale[4 * k] * read) @ u[part[k], out]

    h = [torch.relu(obs[0] @ layers[0][0][:, part[k]] + layers[0][1][part[k]]) for k in range(3)]
    w, b = layers[1]
    h = [torch.relu(h[k] @ w[part[k], part[k]] + b[part[k]] + adapted(h, k, 3, part[k])) for k in range(3)]
    for task in range(3):
        head = slice(5 * task, 5 * task + 5)
        wanted = h[task] @ layers[2][0][part[task], head] + layers[2][1][head] + adapted(h, task, 5, head)
        found = made.agent.network(made.agent.theta, obs, torch.full((2, 5), task))[0]
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_new_column_starts_as_a_network_of_its_own_width() -> None:
    """Its weights are as large as those of a network of four units, whatever the number of columns."""
    made = trainer("pnn", agent_params={"width": 96, "columns": 3, "multi_head": True})
    practise(made, 0, steps=6)
    made.begin(1)
    layers, one = made.agent.network.split(made.agent.theta.detach()), slice(32, 64)
    for weight in (layers[1][0][:, one, one], layers[2][0][:, one, 5:10]):
        assert float(weight.abs().max()) == pytest.approx(32**-0.5, rel=0.05)
    assert not layers[2][0][:, :32, 5:].any()


def test_columns_count_as_memory() -> None:
    made = trainer("pnn")
    masks = made.method.trainable["q"].nbytes
    assert made.method.nbytes >= masks + made.agent.theta.nbytes * 2 // 3


def test_agents_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="columns: wanted a whole number that divides width, got 3"):
        trainer("pnn", agent_params={"width": 16, "columns": 3, "multi_head": True})
    with pytest.raises(ValueError, match="method pnn: wanted columns = 3, one per task, got 1"):
        trainer("pnn", agent_params={"width": 12, "multi_head": True})
    with pytest.raises(ValueError, match="method pnn: wanted multi_head = true, got one head for all tasks"):
        trainer("pnn", agent_params={"width": 12, "columns": 3})
    with pytest.raises(ValueError, match="method pnn: wanted layer_norm = false, because it would mix columns"):
        trainer("pnn", agent_params={"width": 12, "columns": 3, "multi_head": True, "layer_norm": True})
    with pytest.raises(ValueError, match="columns: wanted 1 without the method pnn, got 3"):
        trainer("ewc", agent_params={"width": 12, "columns": 3, "multi_head": True})


@pytest.mark.slow
def test_it_forgets_nothing() -> None:
    fields = {"suite": "nav-3", "seeds": (0, 1, 2, 3), "steps": 4500, "capacity": 2000, "batch": 64}
    R = scores(method="pnn", agent_params={"width": 192, "columns": 3, "multi_head": True}, **fields)
    assert torch.equal(R[:, 1, 0], R[:, 3, 0])
    assert torch.equal(R[:, 2, 1], R[:, 3, 1])
    assert R[:, 3].mean() > 0.6
