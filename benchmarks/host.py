"""Time that a call of SpMM costs the host, by library and kind of call.

    python benchmarks/host.py
    python benchmarks/host.py --write result.csv --compiled

A call returns before the device is done: calls follow each other without waiting, and the product, 500×700 times
700×128 in FP16, takes the device less than the host. PyTorch's and JAX's calls are measured where these are installed,
beside some of PyTorch's own. With `--compiled` they include functions of `torch.compile` with one product and with
nine, which take a minute to compile.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, random_array

from spmm_roofline import SpMM
from spmm_roofline.needs import without_cupy

M, K, N = 500, 700, 128
#: Calls of a round, and rounds of each call, of which the median counts.
CALLS, ROUNDS = 100, 9

Calls = Iterator[tuple[str, Callable[[], Any]]]


def microseconds(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Median time of each call on the host in µs, without waiting for the device in between.

    The calls take turns, so that a time in which the host is slow is one round of each of them.
    """
    import cupy

    for call in calls.values():
        for _ in range(20):
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            cupy.cuda.Device().synchronize()
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            times[name].append((time.perf_counter() - start) / CALLS * 1e6)
    cupy.cuda.Device().synchronize()
    return {name: float(np.median(own)) for name, own in times.items()}


def of_cupy(a: csr_array) -> Calls:
    """Calls with arrays of CuPy."""
    import cupy

    multiply = SpMM(a, "float16")
    b, c = cupy.zeros((K, N), "float16"), cupy.zeros((M, N), "float16")
    values = cupy.zeros(multiply.nnz, "float32")
    yield "CuPy, new C", lambda: multiply(b)
    yield "CuPy, out", lambda: multiply(b, out=c)
    yield "update", lambda: multiply.update(values)


def of_torch(a: csr_array) -> Calls:
    """Calls with tensors, and some of PyTorch's own."""
    import torch

    from spmm_roofline import sddmm, spmm

    multiply = SpMM(a, "float16")
    b, c, out = (torch.randn(rows, N, device="cuda").half() for rows in (K, M, M))
    watched, values = b.clone().requires_grad_(), torch.rand(multiply.nnz, device="cuda")
    dense = torch.tensor(a.toarray(), device="cuda").half()

    def with_backward(product: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(product(watched), watched, c)

    yield "PyTorch, new C", lambda: multiply(b)
    yield "PyTorch, out", lambda: multiply(b, out=out)
    yield "T", lambda: multiply.T(c)
    yield "bias and ReLU", lambda: multiply(b, bias=b[0], relu=True)
    yield "spmm", lambda: spmm(multiply, b)
    yield "spmm, gradient to record", lambda: spmm(multiply, watched)
    yield "spmm, with its backward pass", with_backward(lambda x: spmm(multiply, x))
    yield "spmm, with values", lambda: spmm(multiply, b, values)
    yield "sample", lambda: multiply.sample(c, b)
    yield "sddmm", lambda: sddmm(multiply, c, b)
    yield "torch.empty", lambda: torch.empty(M, N, device="cuda", dtype=torch.half)
    yield "torch.relu_", out.relu_
    yield "torch.mm", lambda: dense @ b
    yield "torch.mm, with its backward pass", with_backward(lambda x: dense @ x)
    sparse = torch.tensor(a.toarray(), device="cuda").half().to_sparse_csr()
    yield "torch.sparse.mm", lambda: torch.sparse.mm(sparse, b)
    yield from of_layers()


def of_layers() -> Calls:
    """Calls with a weight of which so much is left that the dense product is taken, beside PyTorch's layer."""
    import torch
    from torch.nn import functional

    a = random_array((512, 512), density=0.3, format="csr", rng=np.random.default_rng(0))
    multiply, dense = SpMM(a, "float16"), torch.tensor(a.toarray(), device="cuda").half()
    x, bias = torch.randn(64, 512, device="cuda").half(), torch.randn(512, device="cuda").half()
    b = torch.randn(512, N, device="cuda").half()
    taken = {multiply.kernel_for(N), multiply.kernel_of_linear(len(x))}
    if taken != {"cublaslt_gemm_f16"}:
        raise AssertionError(f"{', '.join(sorted(taken))} instead of the dense product")
    yield "dense product", lambda: multiply(b)
    yield "linear, dense product", lambda: multiply.linear(x)
    yield "linear, dense product and bias", lambda: multiply.linear(x, bias)
    yield "torch.nn.functional.linear", lambda: functional.linear(x, dense)


def of_jax(a: csr_array) -> Calls:
    """Calls with arrays of JAX."""
    import jax.numpy as jnp

    multiply, b = SpMM(a, "float16"), jnp.zeros((K, N), jnp.float16)
    yield "JAX, new C", lambda: multiply(b)


def of_compiled() -> Calls:
    """Functions of ``torch.compile`` with one product and with nine, each of the result of the one before."""
    import torch

    from spmm_roofline import spmm

    a = random_array((512, 512), density=0.02, format="csr", rng=np.random.default_rng(0))
    multiply, b = SpMM(a, "float16"), torch.randn(512, N, device="cuda").half() * 0.1

    def repeated(x: Any, products: int) -> Any:
        for _ in range(products):
            x = spmm(multiply, x)
        return x

    for mode in ("default", "reduce-overhead"):
        compiled = torch.compile(repeated, fullgraph=True, mode=mode)
        for products in (1, 9):
            if not torch.equal(compiled(b, products), repeated(b, products)):
                raise AssertionError(f"the compiled function gives another result, in mode {mode}")
            yield f"compiled, {mode}, {products} products", partial(compiled, b, products)
    yield "eager, 9 products", lambda: repeated(b, 9)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiled", action="store_true", help="functions of torch.compile as well")
    parser.add_argument("--write", type=Path, help="CSV for the times")
    options = parser.parse_args()
    if missing := without_cupy("this benchmark"):
        parser.error(missing)
    if options.compiled and not find_spec("torch"):
        parser.error("--compiled needs PyTorch, which is not installed")
    a = random_array((M, K), density=0.02, format="csr", rng=np.random.default_rng(0))
    kinds = [of_cupy(a), *(of(a) for name, of in (("torch", of_torch), ("jax", of_jax)) if find_spec(name))]
    kinds += [of_compiled()] if options.compiled else []
    times = pd.Series(microseconds(dict(chain.from_iterable(kinds))), name="host_us").rename_axis("call")
    print(times.round(1).to_string())
    if options.write:
        times.to_csv(options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
