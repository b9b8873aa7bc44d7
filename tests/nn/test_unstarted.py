import numpy as np
import pytest
import torch

from dagsched.nn.unstarted import _unstarted_means_anywhere, unstarted_means


def drawn_segments(seed):
    """(values, order, begin, end, tasks): suffixes of the workflows of several start orders, some of them twice."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 8, 6)
    ends = np.cumsum(np.tile(sizes, 3))
    order = np.concatenate([rng.permutation(sizes.sum()) for _ in range(3)])
    pairs = sorted(
        {
            (int(end - rng.integers(0, size + 1)), int(end))
            for end, size in zip(ends, np.tile(sizes, 3), strict=True)
            for _ in range(3)
        }
    )
    begin, end = np.array(pairs).T
    tasks = rng.integers(1, 9, len(pairs)).astype(np.float64)
    values = torch.tensor(rng.normal(size=(sizes.sum(), 5)).astype(np.float32), requires_grad=True)
    return values, *(torch.from_numpy(a.copy()) for a in (order, begin, end, tasks))


@pytest.mark.parametrize("seed", range(20))
def test_compiled_means_and_gradients_equal_those_of_torch_bit_for_bit(seed):
    values, *segments = drawn_segments(seed)
    weight = torch.randn(len(segments[1]), 5, generator=torch.Generator().manual_seed(seed))
    found = []
    for function in (unstarted_means, _unstarted_means_anywhere):
        values.grad = None
        means = function(values, *segments)
        (means * weight).sum().backward()
        found.append((means.detach(), values.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


def test_a_mean_divides_by_all_tasks_of_the_workflow():
    values = torch.tensor([[1.0], [2.0], [4.0]])
    places = torch.tensor([2, 0, 1])
    means = unstarted_means(
        values, places, torch.tensor([0, 1]), torch.tensor([3, 3]), torch.tensor([3.0, 3.0]).double()
    )
    assert means[:, 0].tolist() == pytest.approx([7 / 3, 1.0])
