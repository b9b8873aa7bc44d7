import numpy as np
import pytest
import torch

from dagsched.features import schema
from dagsched.nn.actor_critic import ActorCritic
from dagsched.nn.batch import make_batch
from dagsched.nn.config import NetworkConfig
from dagsched.nn.encoder import Graph, GraphEncoder, edge_index
from dagsched.nn.export import HEAD_FIELDS, build_model, embed_fn, tensors_of, to_head
from dagsched.nn.masked import masked_categorical
from tests.learn.made import Plain, made_replay, made_trajectory
from tests.nn.plain import plain_decision

torch.set_num_threads(1)


def random_graph(replay):
    generator = torch.Generator().manual_seed(len(replay))
    return Graph(torch.randn(len(replay), len(schema.NODE_FEATURES), generator=generator), edge_index(replay))


def shaken(config):
    """A network without any zero weights."""
    torch.manual_seed(0)
    model = ActorCritic(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return model


def some_trajectories(wait=False, **kwargs):
    big, small = made_replay((9, 6, 3)), made_replay((5,), seed=1, edges=0.0)
    return [
        made_trajectory(big, 7, 1, groups=3, wait=wait, **kwargs),
        made_trajectory(small, 4, 2, groups=1, wait=wait, **kwargs),
        made_trajectory(big, 5, 3, groups=3, wait=wait, **kwargs),
    ]


@pytest.mark.parametrize("encoder", ["gnn", "none"])
@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("residual", [False, True])
def test_torch_equals_the_plain_formulas(encoder, wait, residual):
    config = NetworkConfig(encoder=encoder, wait=wait, residual=residual, hidden=24, hidden2=12, group_width=5)
    model = shaken(config)
    trajectories = some_trajectories(wait)
    out = model(make_batch(trajectories, random_graph if encoder == "gnn" else None), temperature=1.7)
    d = row = 0
    total = sum(len(t.x) for t in trajectories)
    for trajectory in trajectories:
        fixed = pooled = np.zeros((0, 24), np.float32)
        if encoder == "gnn":
            graph = random_graph(trajectory.replay)
            fixed, pooled = (a.detach().numpy() for a in model.embed(graph.x, graph.edges))
        for k in range(len(trajectory.action)):
            logits, value = plain_decision(tensors_of(model), config, trajectory, k, fixed, pooled)
            count = len(logits) - 1
            found = np.append(out.logits[row : row + count].detach().numpy(), out.logits[total + d].item())
            assert found == pytest.approx(logits, abs=1e-5)
            assert out.value[d].item() == pytest.approx(value, abs=1e-5)
            legal = logits / 1.7 if wait else logits[:-1] / 1.7
            share = np.exp(legal - legal.max()) / np.exp(legal - legal.max()).sum()
            assert out.log_prob[d].item() == pytest.approx(np.log(share[trajectory.action[k]]), abs=1e-5)
            assert out.entropy[d].item() == pytest.approx(-(share * np.log(share)).sum(), abs=1e-5)
            d, row = d + 1, row + count


def test_the_untrained_network_is_its_base_priority():
    config = NetworkConfig(scale=2.5)
    trajectories = some_trajectories()
    batch = make_batch(trajectories, random_graph)
    out = ActorCritic(config)(batch)
    assert torch.equal(out.logits[: len(batch.x)], 2.5 * batch.z)
    highest = [2.5 * t.z[t.row_ptr[d] : t.row_ptr[d + 1]].max() for t in trajectories for d in range(len(t.action))]
    assert out.logits[len(batch.x) :].tolist() == pytest.approx([h - config.margin for h in highest])
    assert not out.value.any()


def test_each_distinct_replay_is_encoded_once():
    calls = []

    def counted(replay):
        calls.append(replay)
        return random_graph(replay)

    batch = make_batch(some_trajectories(), counted)
    assert len(calls) == 2
    assert len(batch.graph.x) == sum(len(replay) for replay in calls)


@pytest.mark.parametrize("encoder", ["gnn", "none"])
def test_selected_decisions_keep_their_numbers(encoder):
    model = shaken(NetworkConfig(encoder=encoder, wait=True))
    batch = make_batch(some_trajectories(wait=True), random_graph if encoder == "gnn" else None)
    wanted = torch.tensor([11, 0, 5, 9, 5])
    whole, part = model(batch), model(batch.select(wanted))
    for name in ("log_prob", "entropy", "value"):
        assert torch.allclose(getattr(whole, name)[wanted], getattr(part, name), atol=1e-6)


def test_gradients_reach_every_weight():
    model = shaken(NetworkConfig(wait=True))
    out = model(make_batch(some_trajectories(wait=True), random_graph))
    (out.log_prob.sum() + out.entropy.sum() + out.value.sum()).backward()
    for name, weight in model.named_parameters():
        assert weight.grad.abs().sum() > 0, name


def test_permuting_task_ids_permutes_scores():
    model = shaken(NetworkConfig())
    replay = made_replay((12,))
    graph = random_graph(replay)
    place = torch.randperm(12, generator=torch.Generator().manual_seed(5))
    moved = Graph(torch.empty_like(graph.x).index_copy_(0, place, graph.x), place[graph.edges])
    for before, after in zip(model.embed(graph.x, graph.edges), model.embed(moved.x, moved.edges), strict=True):
        assert torch.allclose(before, after[place], atol=1e-5)


def test_embeddings_tell_parents_from_children():
    encoder = GraphEncoder()
    x = torch.ones(2, len(schema.NODE_FEATURES))
    e = encoder(x, torch.tensor([[0], [1]]))
    assert not torch.allclose(e[0], e[1])


@pytest.mark.parametrize("size", [1, 2, 17, 5000])
@pytest.mark.parametrize("edges", [0, 4])
def test_any_size_also_without_edges(size, edges):
    torch.manual_seed(0)
    encoder = GraphEncoder()
    child = torch.arange(1, size).repeat(min(edges, size))
    parent = (child.double() * torch.rand(len(child), dtype=torch.float64)).long()
    out = encoder(
        torch.randn(size, len(schema.NODE_FEATURES)),
        torch.stack([parent, child]) if edges else torch.zeros(2, 0).long(),
    )
    assert out.shape == (size, 32)
    assert torch.isfinite(out).all()
    assert out.abs().max() < 100


def test_a_star_of_5000_children_stays_bounded():
    torch.manual_seed(0)
    edges = torch.stack([torch.zeros(4999, dtype=torch.long), torch.arange(1, 5000)])
    assert GraphEncoder()(torch.randn(5000, len(schema.NODE_FEATURES)), edges).abs().max() < 100


def test_the_head_has_the_compiled_fields():
    config = NetworkConfig(encoder="none", wait=True, scale=1.5)
    model = shaken(config)
    normaliser = Plain()
    normaliser.task_std = normaliser.task_std * 4
    head = to_head(model, normaliser, config.columns, temperature=0.5)
    assert tuple(head) == HEAD_FIELDS
    assert head["setting"].tolist() == [1.5, 1.0, 5.0, 0.5]
    assert head["x_scale"].tolist() == [0.25] * len(config.columns)
    for name, value in head.items():
        assert value.flags.c_contiguous
        assert value.dtype == {"columns": np.int64, "setting": np.float64}.get(name, np.float32)
    with pytest.raises(ValueError, match="columns"):
        to_head(model, normaliser, (0, 1))


def test_a_model_rebuilt_from_its_tensors_is_the_same(monkeypatch):
    config = NetworkConfig(width=8, layers=2)
    model = shaken(config)
    again = build_model(tensors_of(model), config)
    import dagsched.nn.encoder

    monkeypatch.setattr(dagsched.nn.encoder, "graph_of", lambda replay, normaliser: random_graph(replay))
    replay = made_replay((9, 2))
    for left, right in zip(embed_fn(model, Plain())(replay), embed_fn(again, Plain())(replay), strict=True):
        assert left.shape == (11, 64)
        assert left.dtype == np.float32
        assert (left == right).all()
    assert embed_fn(shaken(NetworkConfig(encoder="none")), Plain()) is None


def test_entropy_counts_legal_actions_only():
    logits = torch.tensor([1.0, 1.0, 50.0, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    decision = torch.tensor([0, 0, 0, 1, 1])
    legal = torch.tensor([True, True, False, True, True])
    out = masked_categorical(logits, decision, 2, legal)
    assert out.entropy.tolist() == pytest.approx([np.log(2), np.log(2)])
    assert out.log_prob[2] == -torch.inf
    out.entropy.sum().backward()
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[2] == 0
