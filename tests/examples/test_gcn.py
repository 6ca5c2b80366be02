"""The example examples/gcn.py: its losses, its output and its refusals, on the emulated device."""

import csv
import sys

import numpy as np
import pytest
from scipy.io import mmwrite
from scipy.sparse import csr_array, random_array

from tests import emulation
from tests.examples import HostEvent, graphed, loaded, on_the_host, refusal

NODES, STEPS = 40, 4


@pytest.fixture
def gcn(monkeypatch):
    """The example, with tensors of the CPU on the emulated device."""
    module, torch = on_the_host("gcn", monkeypatch)
    monkeypatch.setattr(module, "DEVICE", "cpu")
    monkeypatch.setattr(module, "held_bytes", int)
    monkeypatch.setattr(module, "let_go", lambda: None)
    monkeypatch.setattr(module, "graphed", graphed)
    monkeypatch.setattr(torch.cuda, "Event", HostEvent)
    for name in ("synchronize", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    with emulation.emulated(), emulation.of_tensors():
        yield module


@pytest.fixture
def graph(tmp_path):
    """A directed graph with loops, a file of Matrix Market."""
    a = random_array((NODES, NODES), density=0.06, rng=np.random.default_rng(0)).tolil()
    a[3, 3] = 1.0
    mmwrite(tmp_path / "graph.mtx", a.tocoo())
    return tmp_path / "graph.mtx"


def command(graph, *more):
    small = ["--hidden", "12", "--features", "16", "--classes", "5", "--warmup", "1", "--steps", str(STEPS - 1)]
    return [str(graph), *small, *more]


def losses(matrix, x, labels, layers, steps):
    """Losses of full-batch training in float64. ``layers``: weights, bias and own weights or None of each, NumPy's."""
    chosen = np.arange(len(labels)), labels
    moments = [[(0 * p, 0 * p) for p in layer if p is not None] for layer in layers]
    found = []
    for step in range(1, steps + 1):
        inputs = [x]
        for weight, bias, own in layers:
            sums = (matrix @ inputs[-1]) @ weight.T + bias + (0 if own is None else inputs[-1] @ own.T)
            inputs.append(np.maximum(sums, 0))
        shifted = sums - sums.max(1, keepdims=True)
        logarithms = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
        found.append(-logarithms[chosen].mean())
        gradient = np.exp(logarithms)
        gradient[chosen] -= 1
        gradient /= len(labels)
        for i in reversed(range(len(layers))):
            weight, bias, own = layers[i]
            spread = matrix.T @ gradient
            own_gradients = [gradient.T @ (matrix @ inputs[i]), gradient.sum(0)]
            below = spread @ weight
            if own is not None:
                own_gradients.append(gradient.T @ inputs[i])
                below += gradient @ own
            for j, of_parameter in enumerate(own_gradients):
                first, second = moments[i][j]
                first, second = 0.9 * first + 0.1 * of_parameter, 0.999 * second + 0.001 * of_parameter**2
                moments[i][j] = first, second
                layers[i][j] -= 1e-3 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
            gradient = below * (inputs[i] > 0)
    return found


@pytest.mark.parametrize("model", ["gcn", "sage"])
def test_the_losses_are_those_of_numpy(gcn, graph, model):
    options = gcn.parser().parse_args(command(graph, "--backends", "ours", "torch.sparse"))
    task = gcn.task_of(gcn.graph_of(str(graph), options), model, options)
    entries = gcn.read(graph)
    pattern = csr_array((np.ones(len(entries.rows)), (entries.rows, entries.columns)), entries.shape).toarray() > 0
    pattern = (pattern | pattern.T) & ~np.eye(NODES, dtype=bool)
    a = pattern + np.eye(NODES) if model == "gcn" else pattern.astype(float)
    degree = a.sum(1)
    matrix = a / np.sqrt(np.outer(degree, degree)) if model == "gcn" else a / np.maximum(degree, 1)[:, None]
    network = gcn.Network(task, None)
    layers = [
        [None if p is None else p.detach().numpy().astype("float64") for p in parameters]
        for parameters in (
            (layer.neighbours.weight, layer.neighbours.bias, layer.own and layer.own.weight) for layer in network.layers
        )
    ]
    expected = losses(matrix, task.x.double().numpy(), task.labels.numpy(), layers, STEPS)
    dtype, exact = gcn.reference(task, options)
    assert dtype == "float64" and np.allclose(exact, expected, rtol=1e-6)
    assert expected[-1] < expected[0]
    for result in gcn.compare(task, "float32", options):
        assert not result.message
        assert np.allclose(result.curve, expected, rtol=1e-5), result.backend
        assert len(result.step_ms) == STEPS - 1 and min(result.products_ms) > 0


def test_a_run_prints_rows_and_writes_them(gcn, graph, tmp_path, capsys):
    pytest.importorskip("seaborn")
    written, picture = tmp_path / "rows.csv", tmp_path / "picture.svg"
    backends = ["ours", "torch.sparse", "pyg"]
    more = ["--dtype", "tf32", "bfloat16", "--csv", str(written), "--plot", str(picture)]
    assert gcn.main(command(graph, "--backends", *backends, *more)) == 0
    rows = list(csv.DictReader(written.open()))
    assert [row["backend"] for row in rows] == 2 * backends
    for row in rows:
        if row["backend"] == "ours":
            assert float(row["deviation"]) < gcn.TOLERANCE[row["dtype"]]
            assert float(row["products_fraction"]) > 0 and row["over_ours"] == "1.0"
    text = capsys.readouterr().out
    assert "pip install torch_geometric" in text or "pyg" in text
    assert "sparse products" in picture.read_text()


def test_a_curve_that_leaves_the_tolerance_is_an_error(gcn, graph, capsys, monkeypatch):
    monkeypatch.setitem(gcn.TOLERANCE, "float32", 0.0)
    assert gcn.main(command(graph, "--backends", "ours")) == 1
    assert "the losses of ours deviate by" in capsys.readouterr().out


def test_a_compiled_network_learns_the_same(gcn, graph, capsys):
    assert gcn.main(command(graph, "--layers", "2", "--backends", "ours", "torch.sparse", "--compile")) == 0
    assert "without torch.compile" not in capsys.readouterr().err


def test_a_captured_step_learns_the_same(gcn, graph):
    assert gcn.main(command(graph, "--warmup", "3", "--backends", "ours", "--graph")) == 0


@pytest.mark.gpu
def test_a_step_is_captured_on_a_gpu(graph, tmp_path):
    pytest.importorskip("torch")
    written = tmp_path / "rows.csv"
    more = ["--warmup", "3", "--dtype", "float32", "bfloat16", "--backends", "ours", "--graph", "--csv", str(written)]
    assert loaded("gcn").main(command(graph, *more)) == 0
    assert [row["message"] for row in csv.DictReader(written.open())] == ["", ""]


@pytest.mark.parametrize("model", ["gcn", "sage"])
def test_a_generated_graph_has_the_size_and_hubs(gcn, model):
    options = gcn.parser().parse_args(["arxiv-like", "--scale", "0.02"])
    graph = gcn.graph_of("arxiv-like", options)
    law = gcn.LAWS["arxiv-like"]
    assert graph.nodes == round(0.02 * law.nodes) and len(graph.keys) == 2 * round(0.02 * law.edges)
    a = gcn.adjacency(graph, model)
    rows, columns, values = (array.numpy() for array in (a.rows, a.columns, a.values))
    matrix = csr_array((values, columns, a.pointers.numpy()), (graph.nodes, graph.nodes))
    assert np.array_equal(np.repeat(np.arange(graph.nodes), np.diff(matrix.indptr)), rows)
    assert matrix.has_canonical_format
    degree = np.diff(matrix.indptr)
    assert degree.max() > 15 * degree.mean()
    if model == "gcn":
        assert abs(matrix - matrix.T).max() == 0 and (matrix.diagonal() > 0).all()
    else:
        assert np.allclose(matrix.sum(1)[degree > 0], 1) and not matrix.diagonal().any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.mtx"], "absent.mtx is neither a file nor one of arxiv-like, products-like"),
        (["wide.mtx"], "wide.mtx is 3 x 4; the matrix of a graph must be square"),
        (["arxiv-like", "--scale", "1e-9"], "--scale 1e-09 gives arxiv-like 0 nodes"),
        (["arxiv-like", "--backends", "dgl"], "invalid choice: 'dgl'"),
        (["arxiv-like", "--steps", "0"], "--steps is 0; it must be positive"),
        (["arxiv-like", "--graph", "--warmup", "2"], "--graph takes 3 steps to capture one; --warmup is 2"),
        (["arxiv-like", "--csv", "absent/rows.csv"], "absent/rows.csv cannot be written: there is no folder absent"),
        (["arxiv-like", "--plot", "picture.txt"], "picture.txt is no .svg, .png or .pdf file"),
    ],
)
def test_a_bad_input_is_one_sentence(gcn, arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mmwrite("wide.mtx", random_array((3, 4), density=0.5, rng=0))
    assert message in refusal(gcn, arguments, capsys)


@pytest.mark.gpu
def test_every_backend_learns_the_same_on_a_gpu(graph, tmp_path):
    pytest.importorskip("torch")
    written = tmp_path / "rows.csv"
    more = ["--model", "gcn", "sage", "--dtype", "float32", "tf32", "bfloat16", "--csv", str(written)]
    assert loaded("gcn").main(command(graph, *more)) == 0
    for row in csv.DictReader(written.open()):
        assert not row["message"] or row["backend"] == "pyg", row


def test_without_a_gpu_it_says_so(capsys):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SystemExit):
        loaded("gcn").main(["arxiv-like"])
    assert "needs an NVIDIA GPU" in capsys.readouterr().err


def test_without_pytorch_it_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(SystemExit):
        loaded("gcn").main(["arxiv-like"])
    assert "pip install torch" in capsys.readouterr().err
