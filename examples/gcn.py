"""Train a graph neural network, full batch on one GPU, and compare libraries for its sparse products.

    python examples/gcn.py arxiv-like
    python examples/gcn.py arxiv-like my.mtx --model gcn sage --dtype float32 bfloat16 --csv gcn.csv --plot gcn.svg
    python examples/gcn.py products-like --scale 0.25 --backends ours cusparse --graph

A graph is a square matrix file (.mtx, .npz, .smtx, .rb), whose pattern is made symmetric, or is generated with the size
and the degree law of a data set of OGB: arxiv-like, products-like. Features and labels are synthetic. GCN aggregates by
D^-1/2 (A + I) D^-1/2, GraphSAGE by the mean over the neighbours. A layer whose features shrink transforms before it
aggregates; the others aggregate first. All backends start from the same weights and take steps in turn:

    ours           spmm_roofline.spmm; one plan also serves the product with the transposed matrix. In a GCN, where a
                   layer transforms first, bias and ReLU are a part of the product, so layers of equal width do as well
    torch.sparse   torch.sparse.mm with a CSR tensor; autograd makes the backward product
    cusparse       both matrices and all widths planned once, row-major, each with the fastest CSR algorithm
    pyg            torch_geometric.nn.SimpleConv with an edge index: gather, multiply, scatter

The table gives the time of a step and that of its sparse products by themselves (medians, CUDA events). `limit` is the
speed-up of the step if the products took no time. `plan` is the time to set up the products, first calls included.
`memory` is what a backend needs beyond graph, features and labels. `deviation` is the largest relative difference of
the loss from that of a training in float64; the exit code is 1 if it exceeds the tolerance of the dtype. A step that
takes as long whatever the backend waits for the host: --graph replays it as one CUDA graph.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

try:
    import torch
    import torch.nn.functional as F
    from torch.nn import Linear, Module, ModuleList
except ImportError:  # --help works without PyTorch, and main says what to install
    torch, Module = None, object

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from measuring import graphed, held_bytes, let_go, missing, not_positive, reason, tensor_dtype, timed, unwritable, write

from spmm_roofline.matrices.canonical import MatrixError
from spmm_roofline.matrices.file import read

DEVICE = "cuda"
#: Steps of a backend before the next one takes its turn, so that all of them see the same clocks.
TURN = 5
#: Steps before a captured one can be replayed: the first, and those of the capture.
CAPTURE = 3
#: dtype → largest relative deviation of a loss from float64.
TOLERANCE = {"float32": 1e-3, "tf32": 1e-2, "bfloat16": 5e-2}


class Aggregate(NamedTuple):
    """The products of a backend with the matrix of a graph."""

    #: product(x), n×width to n×width, with a gradient
    product: Callable[[Any], Any]
    #: epilogue(x, bias, relu) = product(x) + bias, or its ReLU, if the backend has both in one kernel.
    epilogue: Callable[[Any, Any, bool], Any] | None = None


# --- graphs -----------------------------------------------------------------------------------------------------------


class Law(NamedTuple):
    """Size of a generated graph: the expected degree of the node of rank r is proportional to r^-``exponent``."""

    nodes: int
    edges: int
    features: int
    classes: int
    exponent: float


#: The exponents give the largest degree the order of magnitude that it has in the data set, 10^4 in both.
LAWS = {
    "arxiv-like": Law(169_343, 1_166_243, 128, 40, 0.66),
    "products-like": Law(2_449_029, 61_859_140, 100, 47, 0.436),
}


class Graph(NamedTuple):
    """An undirected graph without loops: ``keys`` int64[entries], row·nodes + column of each entry, ascending."""

    name: str
    nodes: int
    keys: Any
    features: int
    classes: int


def symmetric(rows: Any, columns: Any, nodes: int) -> Any:
    """Keys of the edges in both directions, each once; loops are dropped."""
    edge = rows != columns
    rows, columns = rows[edge], columns[edge]
    return torch.unique(torch.cat([rows * nodes + columns, columns * nodes + rows]))


def generated(name: str, scale: float, seed: int) -> Graph:
    """Nodes and edges of the law times ``scale``; both ends of an edge are drawn by expected degree (Chung & Lu)."""
    law = LAWS[name]
    nodes, edges = round(law.nodes * scale), round(law.edges * scale)
    if not 100 <= nodes <= law.nodes * 8:
        raise MatrixError(f"--scale {scale:g} gives {name} {nodes:,} nodes; 100 to {law.nodes * 8:,} are possible")
    drawn = {"generator": torch.Generator(DEVICE).manual_seed(seed), "device": DEVICE}
    degrees = torch.arange(1, nodes + 1, dtype=torch.float64, device=DEVICE) ** -law.exponent
    bounds = degrees[torch.randperm(nodes, **drawn)].cumsum(0)
    found = torch.empty(0, dtype=torch.int64, device=DEVICE)
    while len(found) < edges:
        # Hubs meet more than once, so a few more edges are drawn than are missing.
        positions = torch.rand((2, int(1.1 * (edges - len(found))) + 1), dtype=torch.float64, **drawn) * bounds[-1]
        ends = torch.searchsorted(bounds, positions).clamp_(max=nodes - 1)
        low, high = ends.amin(0), ends.amax(0)
        found = torch.unique(torch.cat([found, (low * nodes + high)[low < high]]))
    found = found[torch.randperm(len(found), **drawn)[:edges]]
    label = name if scale == 1 else f"{name} x {scale:g}"
    return Graph(label, nodes, symmetric(found // nodes, found % nodes, nodes), law.features, law.classes)


def graph_of(name: str, options: argparse.Namespace) -> Graph:
    """The graph of a name or a file. Raises :class:`MatrixError`."""
    if name in LAWS:
        return generated(name, options.scale, options.seed)
    if not Path(name).is_file():
        raise MatrixError(f"{name} is neither a file nor one of {', '.join(LAWS)}")
    entries = read(name)
    m, k = entries.shape
    if m != k:
        raise MatrixError(f"{name} is {m} x {k}; the matrix of a graph must be square")
    rows, columns = (torch.tensor(ends, dtype=torch.int64).to(DEVICE) for ends in (entries.rows, entries.columns))
    return Graph(Path(name).stem, m, symmetric(rows, columns, m), options.features, options.classes)


class Adjacency(NamedTuple):
    """The n×n matrix by which a model aggregates: CSR, and the row of each entry; int64, values float64."""

    n: int
    pointers: Any
    rows: Any
    columns: Any
    values: Any
    is_mean: bool


def adjacency(graph: Graph, model: str) -> Adjacency:
    """D^-1/2 (A + I) D^-1/2 for GCN, D^-1 A for GraphSAGE."""
    n, keys = graph.nodes, graph.keys
    if model == "gcn":
        keys = torch.cat([keys, torch.arange(n, device=DEVICE) * (n + 1)]).sort().values
    rows, columns = keys // n, keys % n
    counts = torch.bincount(rows, minlength=n)
    degrees = counts.double()
    values = (degrees[rows] * degrees[columns]).rsqrt() if model == "gcn" else degrees[rows].reciprocal()
    return Adjacency(n, F.pad(counts.cumsum(0), (1, 0)), rows, columns, values, model == "sage")


# --- backends: matrix and dtype → products ----------------------------------------------------------------------------


def ours(a: Adjacency, dtype: str) -> Aggregate:
    from spmm_roofline import SpMM, spmm

    plan = SpMM((a.pointers, a.columns, a.values), dtype, shape=(a.n, a.n))
    return Aggregate(lambda x: spmm(plan, x), lambda x, bias, relu: spmm(plan, x, bias=bias, relu=relu))


def torch_sparse(a: Adjacency, dtype: str) -> Aggregate:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse (CSR tensor support is in beta|invariant checks)")
        matrix = torch.sparse_csr_tensor(
            a.pointers, a.columns, a.values.to(tensor_dtype(dtype)), (a.n, a.n), check_invariants=False
        )
    return Aggregate(lambda x: torch.sparse.mm(matrix, x))


def pyg(a: Adjacency, dtype: str) -> Aggregate:
    from torch_geometric.nn import SimpleConv

    edges = torch.stack([a.columns, a.rows])
    if a.is_mean:
        mean = SimpleConv("mean")
        return Aggregate(lambda x: mean(x, edges))
    weighted, values = SimpleConv("sum"), a.values.to(tensor_dtype(dtype))
    return Aggregate(lambda x: weighted(x, edges, values))


def cusparse(a: Adjacency, dtype: str) -> Aggregate:
    """TF32 is multiplied in FP32: cuSPARSE has no other product for these operands."""
    from spmm_roofline.multiply.matrix import matrix_of

    matrix = matrix_of((a.pointers, a.columns, a.values), (a.n, a.n))
    stored = "float32" if dtype == "tf32" else dtype
    forward, backward = (cusparse_product(each.csr, stored) for each in (matrix, matrix.transposed))

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            return forward(x)

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            return backward(gradient)

    return Aggregate(Product.apply)


def cusparse_product(csr: Any, dtype: str) -> Callable[[Any], Any]:
    """product(b) with CuPy's m×k matrix: a width is planned once, with the algorithm that is fastest for it."""
    from cupy_backends.cuda.libs.cusparse import dnMatSetValues

    from spmm_roofline.formats.csr import Csr
    from spmm_roofline.kernels.launch import prepare
    from spmm_roofline.kernels.operands import Dense
    from spmm_roofline.kernels.registry import head
    from spmm_roofline.multiply.arrays import cupy_stream, library_of
    from spmm_roofline.paths import KERNELS

    packed = Csr.from_csr(csr, dtype)
    suffix = "_bf16" if dtype == "bfloat16" else ""
    heads = [head(f"cusparse_csr{algorithm}{suffix}", KERNELS) for algorithm in ("", "_alg1", "_alg2", "_alg3")]
    fastest: dict[int, Callable[[Any, Any], None]] = {}

    def planned_with(head: Any, b: Any, c: Any) -> Callable[[Any, Any], None]:
        tensors = library_of(b, "b")
        b, c = (tensors.view(tensor, "an operand") for tensor in (b, c))
        b, c = (Dense(view.storage(), view.rows, view.columns, False, dtype) for view in (b, c))
        call = prepare(head, None, packed, b, c)
        # The package binds a call to its arrays. Here B and C are let go, and their descriptors get new addresses.
        enqueue, kept = call.enqueue, call.keeps[:-2]

        def multiply(b: Any, c: Any) -> None:
            dnMatSetValues(kept[0].b, b.data_ptr())
            dnMatSetValues(kept[0].c, c.data_ptr())
            enqueue(cupy_stream(tensors.stream(b.get_device())))

        return multiply

    def product(b: Any) -> Any:
        b, n = b.contiguous(), b.shape[1]
        c = b.new_empty((packed.shape[0], n))
        if n not in fastest:
            planned = [planned_with(head, b, c) for head in heads]
            fastest[n] = min(planned, key=lambda multiply: min(timed(lambda: multiply(b, c), 4)))
        fastest[n](b, c)
        return c

    return product


class Backend(NamedTuple):
    """What makes the products, and whether torch.compile can look inside them."""

    make: Callable[[Adjacency, str], Aggregate]
    can_be_traced: bool


BACKENDS = {
    "ours": Backend(ours, True),
    "torch.sparse": Backend(torch_sparse, False),
    "cusparse": Backend(cusparse, False),
    "pyg": Backend(pyg, True),
}


# --- the training -----------------------------------------------------------------------------------------------------


class Task(NamedTuple):
    """What is trained: ``sizes`` are the widths from features to classes; x float32[n×features], labels int64[n]."""

    name: str
    model: str
    sizes: list[int]
    a: Adjacency
    x: Any
    labels: Any
    seed: int


def task_of(graph: Graph, model: str, options: argparse.Namespace) -> Task:
    """Random features, and labels that can be learnt: the largest of random linear functions of the aggregates."""
    drawn = {"generator": torch.Generator(DEVICE).manual_seed(options.seed), "device": DEVICE}
    a = adjacency(graph, model)
    x = torch.randn((graph.nodes, graph.features), **drawn)
    truth = torch.randn((graph.features, graph.classes), **drawn)
    labels = torch_sparse(a, "float32").product(x @ truth).argmax(1)
    sizes = [graph.features, *[options.hidden] * (options.layers - 1), graph.classes]
    return Task(graph.name, model, sizes, a, x, labels, options.seed)


class Layer(Module):
    """Weights of the aggregated neighbours and, in GraphSAGE, of the node itself."""

    def __init__(self, inputs: int, outputs: int, has_own: bool) -> None:
        super().__init__()
        self.neighbours = Linear(inputs, outputs)
        self.own = Linear(inputs, outputs, bias=False) if has_own else None
        self.inputs, self.outputs = inputs, outputs

    def forward(self, x: Any, aggregate: Aggregate, relu: bool) -> Any:
        epilogue = aggregate.epilogue if self.own is None else None
        if self.outputs < self.inputs or (epilogue and self.outputs == self.inputs):
            y = F.linear(x, self.neighbours.weight)
            if epilogue:
                return epilogue(y, self.neighbours.bias.to(y.dtype), relu)
            y = aggregate.product(y) + self.neighbours.bias
        else:
            y = self.neighbours(aggregate.product(x))
        if self.own is not None:
            y = y + self.own(x)
        return torch.relu(y) if relu else y


class Network(Module):
    """Layers with ReLU between them."""

    def __init__(self, task: Task, aggregate: Aggregate) -> None:
        super().__init__()
        torch.manual_seed(task.seed)
        self.layers = ModuleList([Layer(*sizes, task.model == "sage") for sizes in pairwise(task.sizes)])
        self.aggregate = aggregate

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x, self.aggregate, relu=layer is not self.layers[-1])
        return x


class Training:
    """A network with its optimiser; ``losses`` has the loss of each step so far, as tensors."""

    def __init__(
        self, task: Task, aggregate: Aggregate, dtype: str, compiled: bool = False, captured: bool = False
    ) -> None:
        # BF16 is for products, as autocast has it, and for the features; weights and their updates stay in FP32.
        self.weights_dtype = torch.float64 if dtype == "float64" else torch.float32
        network = Network(task, aggregate).to(DEVICE, self.weights_dtype)
        self.x, self.labels = task.x.to(tensor_dtype(dtype)), task.labels
        # A larger rate makes training chaotic: at 0.01, curves in float32 and float64 part after some forty steps.
        self.optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True, capturable=captured)
        self.network = torch.compile(network) if compiled else network
        self.autocast = torch.autocast(DEVICE, torch.bfloat16, enabled=dtype == "bfloat16")
        self.losses: list[Any] = []
        self.replay: Callable[[], Any] | None = None

    def step(self) -> None:
        """Take a step, and keep its loss."""
        self.losses.append(self.replay() if self.replay else self._step())

    def capture(self) -> None:
        """From here on, a step is the replay of one CUDA graph, and costs the host microseconds. Takes two steps."""
        losses: list[Any] = []

        def step() -> Any:
            losses.append(self._step())
            return losses[-1]

        replay, loss = graphed(step)
        self.losses += losses[:2]

        def replayed() -> Any:
            replay()
            return loss.clone()

        self.replay = replayed

    def _step(self) -> Any:
        """Forward, loss, backward, update."""
        with self.autocast:
            logits = self.network(self.x).to(self.weights_dtype)
            # PyTorch takes the mean of losses on one multiprocessor: 0.3 ms, of 2.2 for a step in BF16 on an H100.
            loss = F.cross_entropy(logits, self.labels, reduction="none").mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def curve(self) -> list[float]:
        return torch.stack(self.losses).tolist()


# --- measuring --------------------------------------------------------------------------------------------------------


@dataclass
class Result:
    """A backend's training and its measurements; ``message`` says why there are none."""

    backend: str
    message: str = ""
    aggregate: Aggregate | None = None
    training: Training | None = None
    products: Callable[[], None] | None = None
    plan_ms: float = 0.0
    memory_bytes: int = 0
    step_ms: list[float] = field(default_factory=list)
    products_ms: list[float] = field(default_factory=list)
    curve: list[float] = field(default_factory=list)

    def fail(self, error: Exception) -> None:
        """Keep the reason in one sentence, and free what the backend holds."""
        self.message = reason(error)
        self.aggregate = self.training = self.products = None


def products_of(task: Task, aggregate: Aggregate, dtype: str) -> Callable[[], None]:
    """An action that computes the sparse products of a step, forward and backward, and nothing else."""
    operands = []
    for i, (inputs, outputs) in enumerate(pairwise(task.sizes)):
        x = torch.rand((task.a.n, min(inputs, outputs)), device=DEVICE).to(tensor_dtype(dtype))
        # The features need no gradient, but what they are transformed to does.
        operands.append(x.requires_grad_(i > 0 or outputs < inputs))

    def products() -> None:
        for x in operands:
            y = aggregate.product(x)
            if x.requires_grad:
                torch.autograd.grad(y, x, x)

    return products


def planned(task: Task, backend: str, dtype: str) -> tuple[Aggregate, float]:
    """The products of a backend, and the time in ms of planning them."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    aggregate = BACKENDS[backend].make(task.a, dtype)
    products = products_of(task, aggregate, dtype)
    products()
    torch.cuda.synchronize()
    wall_ms = (time.perf_counter() - start) * 1e3
    return aggregate, max(wall_ms - min(timed(products, 2)), 0.0)


def first_step(task: Task, backend: str, aggregate: Aggregate, dtype: str, options: argparse.Namespace) -> Training:
    """A training after its first step, compiled on request if that works."""
    captured = options.graph and DEVICE == "cuda"
    if options.compile:
        is_visible = BACKENDS[backend].can_be_traced
        visible = aggregate if is_visible else Aggregate(torch.compiler.disable(aggregate.product))
        training = Training(task, visible, dtype, True, captured)
        try:
            training.step()
            return training
        except Exception as error:
            print(f"{backend} runs without torch.compile: {type(error).__name__}", file=sys.stderr)
    training = Training(task, aggregate, dtype, captured=captured)
    training.step()
    return training


def begin(task: Task, backend: str, dtype: str, options: argparse.Namespace) -> Result:
    """Plan, compile, and take the steps of the warm-up."""
    result = Result(backend)
    let_go()
    before = torch.cuda.memory_allocated() + held_bytes()
    try:
        planned(task, backend, dtype)  # the first plan also loads and compiles code
        let_go()
        result.aggregate, result.plan_ms = planned(task, backend, dtype)
        result.training = first_step(task, backend, result.aggregate, dtype, options)
        torch.cuda.reset_peak_memory_stats()
        if options.graph:
            result.training.capture()
        for _ in range(options.warmup - len(result.training.losses)):
            result.training.step()
        torch.cuda.synchronize()
        result.memory_bytes = torch.cuda.max_memory_allocated() + held_bytes() - before
        products = products_of(task, result.aggregate, dtype)
        # As the step: replayed, or called from the host, which may take longer than the device.
        result.products = graphed(products)[0] if options.graph else products
    except Exception as error:  # whatever a library raises becomes the row of this backend; the others go on
        result.fail(error)
    return result


def compare(task: Task, dtype: str, options: argparse.Namespace) -> list[Result]:
    """Train with every backend, in turns of :data:`TURN` steps."""
    torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
    if options.compile:
        torch._dynamo.reset()
    results = [begin(task, backend, dtype, options) for backend in options.backends]
    let_go()
    for start in range(0, options.steps, TURN):
        for result in results:
            if result.training:
                try:
                    result.step_ms += timed(result.training.step, min(TURN, options.steps - start))
                    result.products_ms += timed(result.products, 2)[1:]
                except Exception as error:
                    result.fail(error)
    for result in results:
        if result.training:
            result.curve = result.training.curve()
            result.aggregate = result.training = result.products = None
    return results


def reference(task: Task, options: argparse.Namespace) -> tuple[str, list[float]]:
    """Dtype and losses of the training that the others are compared with: float64, or float32 if memory is short."""
    torch.set_float32_matmul_precision("highest")
    for dtype in ("float64", "float32"):
        try:
            training = Training(task, torch_sparse(task.a, dtype), dtype)
            for _ in range(options.warmup + options.steps):
                training.step()
            return dtype, training.curve()
        except torch.OutOfMemoryError:
            training = None
            let_go()
    raise MatrixError(f"{task.name} does not fit the memory of this GPU; --scale makes a generated graph smaller")


# --- output -----------------------------------------------------------------------------------------------------------

#: Measured column → heading, factor and format in the table.
MEASURED = {
    "step_ms": ("step, ms", 1, ".3f"),
    "products_ms": ("products, ms", 1, ".3f"),
    "products_fraction": ("of step", 1, ".0%"),
    "limit": ("limit", 1, ".2f"),
    "over_ours": ("x ours", 1, ".2f"),
    "plan_ms": ("plan, ms", 1, ".1f"),
    "memory_bytes": ("memory, MB", 1e-6, ",.0f"),
    "loss": ("last loss", 1, ".4f"),
    "deviation": ("deviation", 1, ".1e"),
}


def rows_of(task: Task, dtype: str, results: list[Result], compared: str, exact: list[float]) -> list[dict[str, Any]]:
    """A row for each backend; measured columns are None where it failed."""
    rows = []
    ours_ms = next((median(r.step_ms) for r in results if r.backend == "ours" and r.curve), None)
    for result in results:
        row = {"graph": task.name, "nodes": task.a.n, "entries": len(task.a.columns), "model": task.model}
        row |= {"sizes": "-".join(map(str, task.sizes)), "dtype": dtype, "reference": compared}
        row |= {"backend": result.backend, **dict.fromkeys(MEASURED), "message": result.message}
        if result.curve:
            step_ms, products_ms = median(result.step_ms), median(result.products_ms)
            row |= {"step_ms": step_ms, "products_ms": products_ms, "products_fraction": products_ms / step_ms}
            row |= {"limit": step_ms / (step_ms - products_ms) if products_ms < step_ms else float("inf")}
            row |= {"over_ours": step_ms / ours_ms if ours_ms else None, "plan_ms": result.plan_ms}
            row |= {"memory_bytes": result.memory_bytes, "loss": result.curve[-1]}
            row["deviation"] = max(abs(loss / true - 1) for loss, true in zip(result.curve, exact, strict=True))
        rows.append(row)
    return rows


def told(rows: list[dict[str, Any]]) -> None:
    """Print the rows of one task and dtype as a table."""
    title = "\n{graph}, {model} {sizes}, {dtype}: {nodes:,} nodes, {entries:,} entries; reference in {reference}"
    print(title.format(**rows[0]))
    print(f"{'':13s}" + "".join(f"{heading:>13s}" for heading, _, _ in MEASURED.values()))
    for row in rows:
        cells = ((row[name], factor, style) for name, (_, factor, style) in MEASURED.items())
        texts = ("" if value is None else format(value * factor, style) for value, factor, style in cells)
        print(
            f"{row['backend']:13s}"
            + (f"  {row['message']}" if row["message"] else "".join(map("{:>13s}".format, texts)))
        )


def drawn(cases: list[tuple[list[dict[str, Any]], dict[str, list[float]]]], path: Path) -> None:
    """Draw each case, its rows and its loss curves: the time of a step, split in sparse products and rest; losses."""
    import matplotlib.pyplot as plt
    import seaborn as sns

    sns.set_theme(style="whitegrid", rc={"svg.hashsalt": "gcn", "svg.fonttype": "none"})
    figure, axes = plt.subplots(len(cases), 2, figsize=(10, 2.6 * len(cases)), squeeze=False, layout="constrained")
    for (bars, lines), (rows, curves) in zip(axes, cases, strict=True):
        names = [row["backend"] for row in rows]
        step, products = ([row[name] or 0 for row in rows] for name in ("step_ms", "products_ms"))
        bars.barh(names, products, label="sparse products")
        rest = [max(whole - part, 0) for whole, part in zip(step, products, strict=True)]
        bars.barh(names, rest, left=products, label="rest of the step")
        bars.invert_yaxis()
        bars.set(title="{graph}, {model}, {dtype}".format(**rows[0]), xlabel="time of a step, ms")
        for name, curve in curves.items():
            lines.plot(curve, "-" if name in names else "k:", label=name)
        lines.set(xlabel="step", ylabel="loss")
        for axis in (bars, lines):
            axis.legend(fontsize="small")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


# --- the command line -------------------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("graphs", nargs="+", metavar="GRAPH", help=f"matrix files, or {', '.join(LAWS)}")
    for name, known, default in (
        ("--model", ["gcn", "sage"], ["gcn"]),
        ("--dtype", list(TOLERANCE), ["float32"]),
        ("--backends", list(BACKENDS), list(BACKENDS)),
    ):
        made.add_argument(name, nargs="+", choices=known, default=default, help=f"default: {' '.join(default)}")
    made.add_argument("--layers", type=int, choices=(2, 3), default=3, help="default: 3")
    for name, default, text in (
        ("--hidden", 256, "width of the hidden layers"),
        ("--features", 128, "features of a graph from a file"),
        ("--classes", 40, "classes of a graph from a file"),
        ("--steps", 50, "timed steps of training"),
        ("--warmup", 5, "steps before them, which the curve includes"),
    ):
        made.add_argument(name, type=int, default=default, help=f"{text}; default: {default}")
    made.add_argument("--scale", type=float, default=1.0, help="factor of a generated graph's nodes and edges")
    made.add_argument("--seed", type=int, default=0, help="of graph, features and weights; default: 0")
    made.add_argument("--compile", action="store_true", help="compile the network with torch.compile")
    made.add_argument("--graph", action="store_true", help="capture a step as a CUDA graph, and replay it")
    made.add_argument("--csv", type=Path, help="write the rows to this file")
    made.add_argument("--plot", type=Path, help="draw times and losses to this .svg, .png or .pdf file")
    return made


def refusal(options: argparse.Namespace) -> str:
    """What is wrong with the options, in a sentence; empty if nothing."""
    if options.graph and options.warmup < CAPTURE:
        return f"--graph takes {CAPTURE} steps to capture one; --warmup is {options.warmup}"
    return not_positive(options, "hidden", "features", "classes", "steps", "warmup") or unwritable(options)


def main(arguments: list[str] | None = None) -> int:
    command = parser()
    options = command.parse_args(arguments)
    if sentence := refusal(options) or missing():
        command.error(sentence)
    rows, cases = [], []
    try:
        for name in options.graphs:
            graph = graph_of(name, options)
            for model in options.model:
                task = task_of(graph, model, options)
                compared, exact = reference(task, options)
                for dtype in options.dtype:
                    results = compare(task, dtype, options)
                    own = rows_of(task, dtype, results, compared, exact)
                    told(own)
                    rows += own
                    curves = {result.backend: result.curve for result in results if result.curve}
                    cases.append((own, {**curves, f"reference in {compared}": exact}))
    except MatrixError as error:
        command.error(str(error))
    if options.csv:
        write(rows, options.csv)
    if options.plot:
        drawn(cases, options.plot)
    wrong = [row for row in rows if row["step_ms"] and not row["deviation"] <= TOLERANCE[row["dtype"]]]
    for row in wrong:
        text = "{graph}, {model}, {dtype}: the losses of {backend} deviate by {deviation:.1e}, more than {most:g}"
        print(text.format(**row, most=TOLERANCE[row["dtype"]]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
