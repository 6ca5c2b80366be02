"""Attention over a sparse mask, against softmax in double precision."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from tests.multiply.operands import as_stored, check_operator, sparse

pytestmark = pytest.mark.usefixtures("device")

#: Largest error of a result for operands of about one: the powers and the result are rounded to the dtype.
ERRORS = {"float16": 4e-3, "bfloat16": 3e-2}


def reference(mask, q, k, v, scale=None):
    """float64[..., m, width]; a query without keys gives zeros."""
    scores = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = np.where(mask, scores, -np.inf)
    largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    powers = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total > 0, total, 1) @ v


def drawn(shape, dtype, seed):
    """An array on the device and its values, float64."""
    import cupy

    from spmm_roofline.formats.values import rounded

    values = as_stored(np.random.default_rng(seed).standard_normal(shape), dtype)
    return rounded(cupy.asarray(values), dtype), values


def check(mask, dtype, width, batch=1, heads=2, queries=None, scale=None):
    from spmm_roofline import MaskedAttention
    from spmm_roofline.formats.values import widened

    attend = MaskedAttention(mask, queries=queries)
    m, k = mask.shape
    (q, of_q), (key, of_k), (v, of_v) = (
        drawn((batch, heads, rows, width), dtype, seed) for seed, rows in enumerate((m, k, k))
    )
    found = widened(attend(q, key, v, scale), dtype).get()
    wanted = reference(mask.toarray() != 0, of_q, of_k, of_v, scale)
    assert found.shape == wanted.shape and np.abs(found - wanted).max(initial=0.0) < ERRORS[dtype]
    return attend


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("queries", [16, 64])
def test_every_variant(dtype, width, queries):
    attend = check(sparse(83, 150, 0.1), dtype, width, queries=queries)
    assert attend.queries == queries and attend.nnz <= attend.scores and attend.plan_bytes > 0


@pytest.mark.parametrize(("m", "k"), [(1, 1), (64, 64), (65, 33), (130, 7)])
def test_any_size(m, k):
    check(sparse(m, k, 0.5), "float16", 64, batch=2, heads=1)


def test_queries_without_keys_give_zeros_and_a_mask_may_be_empty():
    mask = sparse(70, 40, 0.3).tolil()
    mask[10:60] = 0
    check(mask.tocsr(), "float16", 64)
    check(csr_array((20, 30)), "float16", 64)


def test_scores_of_any_size():
    mask = sparse(40, 90, 0.4)
    for scale in (30.0, 1e-3):
        check(mask, "float16", 64, scale=scale)


def test_blocks_are_finer_where_rows_share_few_columns():
    from spmm_roofline import MaskedAttention

    scattered = MaskedAttention(sparse(512, 4096, 0.003))
    window = np.abs(np.subtract.outer(np.arange(512), np.arange(512))) <= 64
    assert scattered.queries == 16 and MaskedAttention(window).queries == 64
    check(csr_array(window), "float16", 64, heads=1)
    # Blocks of 64 queries see 64 + 2·64 keys, at most three tiles of 64 and a fourth where the window is not aligned.
    assert MaskedAttention(window).scores <= 512 * 4 * 64


def test_what_does_not_fit_is_one_sentence():
    import cupy

    from spmm_roofline import MaskedAttention

    attend = MaskedAttention(sparse(20, 30, 0.5))
    q, k = cupy.zeros((2, 20, 64), "float16"), cupy.zeros((2, 30, 64), "float16")
    for operands, message in (
        ((k, k, k), "q is .* the mask is 20 x 30, so it needs 20 rows"),
        ((q.astype("float32"), k, k), "q is float32"),
        ((q[..., :32], k, k), "q has 32 columns"),
        ((q, k[:1], k), "the same batches"),
        ((cupy.zeros((2, 20, 65), "float16")[..., 1:], k, k), "multiples of 16 bytes"),
        ((q, k, np.zeros((2, 30, 64)).tolist()), "takes arrays of"),
    ):
        with pytest.raises(ValueError, match=message):
            attend(*operands)
    for scale in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="must be positive"):
            attend(q, k, k, scale)
    with pytest.raises(ValueError, match="16 or 64"):
        MaskedAttention(sparse(20, 30, 0.5), queries=32)


@pytest.mark.parametrize("captured", ["another dtype", "another width", "a plan"])
def test_what_a_capture_cannot_hold_is_refused_before_it_is_enqueued(captured, monkeypatch):
    import cupy

    from spmm_roofline import MaskedAttention
    from spmm_roofline.kernels.launch import DriverLaunch

    attend = MaskedAttention(sparse(40, 40, 0.2))
    q = cupy.zeros((2, 40, 128), "float16")
    of_first = (q[..., :64],) * 3
    attend(*of_first)
    monkeypatch.setattr(cupy.cuda.runtime, "streamIsCapturing", lambda stream: True)
    attend(*of_first)
    attend(*(each[:1] for each in of_first))  # of other batches: the kernel is there
    monkeypatch.setattr(DriverLaunch, "__call__", None)
    monkeypatch.setattr(cupy, "empty", None)
    with pytest.raises(ValueError, match="a CUDA graph cannot capture"):
        if captured == "a plan":
            MaskedAttention(sparse(40, 40, 0.2))
        else:
            attend(*((q if captured == "another width" else q[..., :64].view("uint16"),) * 3))


@pytest.mark.gpu
@pytest.mark.parametrize("queries", [16, 64])
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("dtype", ERRORS)
def test_equal_operands_give_equal_bits(dtype, width, queries, device):
    import cupy

    from spmm_roofline import MaskedAttention

    if device != "gpu":
        pytest.skip("the emulated device runs CTAs in one order")
    attend = MaskedAttention(sparse(1500, 1500, 0.02), queries=queries)
    q, k, v = (drawn((2, 4, 1500, width), dtype, seed)[0] for seed in range(3))
    expected = attend(q, k, v)
    cupy.cuda.Device().synchronize()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    for i in range(100):
        with streams[i % 4]:
            assert (attend(q, k, v).view("uint8") == expected.view("uint8")).all(), i


@pytest.mark.gpu
def test_every_replay_of_a_graph_gives_equal_bits(torch, device):
    from spmm_roofline import MaskedAttention

    if device != "gpu":
        pytest.skip("CUDA graphs need a GPU")
    attend = MaskedAttention(sparse(1500, 1500, 0.02))
    q, k, v = (torch.randn(2, 4, 1500, 64, dtype=torch.float16) for _ in range(3))
    expected = attend(q, k, v)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = attend(q, k, v)
    for i in range(100):
        found.zero_()
        graph.replay()
        assert torch.equal(found, expected), i


def test_a_mask_that_requires_a_gradient_is_refused(torch):
    from spmm_roofline import MaskedAttention

    mask = torch.tensor(sparse(20, 20, 0.3).toarray()).to_sparse_csr().requires_grad_()
    with pytest.raises(ValueError, match="only its pattern matters"):
        MaskedAttention(mask)
    assert MaskedAttention(mask.detach()).nnz == mask._nnz()


@pytest.mark.parametrize("layout", ["csr", "coo"])
def test_a_mask_may_be_a_sparse_boolean_tensor(torch, layout):
    from spmm_roofline import MaskedAttention

    mask = torch.tensor(sparse(50, 50, 0.2).toarray()) != 0
    given = mask.to_sparse_csr() if layout == "csr" else mask.to_sparse()
    assert MaskedAttention(given).nnz == MaskedAttention(mask).nnz


def test_tensors_of_any_strides(torch):
    from spmm_roofline import MaskedAttention

    mask = torch.tensor(sparse(50, 50, 0.2).toarray()) != 0
    attend = MaskedAttention(mask)
    whole = torch.tensor(np.random.default_rng(0).standard_normal((2, 50, 3, 4, 64))).half()
    # Of one projection, as layers of transformers have them: batch, row, (q, k, v), head, column.
    q, k, v = (whole[:, :, i].transpose(1, 2) for i in range(3))
    found = attend(q, k, v)
    wanted = reference(mask.cpu().numpy(), *(x.double().cpu().numpy() for x in (q, k, v)))
    assert found.shape == q.shape and np.abs(found.double().cpu().numpy() - wanted).max() < ERRORS["float16"]
    assert torch.equal(found, torch.stack([attend(q[i], k[i], v[i]) for i in range(2)]))


def test_it_is_an_operator_without_a_gradient(torch):
    from spmm_roofline import MaskedAttention

    attend = MaskedAttention(sparse(40, 40, 0.2))
    q, k, v = (torch.tensor(np.random.default_rng(i).standard_normal((1, 2, 40, 64))).half() for i in range(3))
    check_operator("attention", (q, k, v, attend.number, 0.125))
    compiled = torch.compile(lambda q: attend(q, k, v) + 1, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q), attend(q, k, v) + 1)
    with pytest.raises(ValueError, match="no gradient"):
        attend(q.requires_grad_(), k, v)
    with torch.no_grad():
        attend(q, k, v)
