"""The file of a new kernel: a complete head with a comment at each key, and code that compiles."""

from __future__ import annotations

import re
from pathlib import Path

from ..formats import FORMATS
from ..spelling import choices, suggestion
from .front_matter import ELEMENT_TYPES, PACKING, WORDS, read
from .head import Head, HeadError
from .registry import registered

#: Folders of kernels that are no studies, and the study of the libraries that users bring.
_RESERVED = (PACKING, "include", "external")

#: NumPy dtype of an array of A that holds no values → its C++ type.
_INTEGERS = {
    **{"int32": "int", "int64": "long long", "uint64": "unsigned long long"},
    **{"uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned"},
}
_HEADERS = {"float16": "#include <cuda_fp16.h>\n\n", "bfloat16": "#include <cuda_bf16.h>\n\n"}

_HEAD = """\
/*---
# The name of this file, and of its folder.
name: {name}
study: {study}
# The text that describes the kernel: paper and section.
source: write down where the kernel is described
# The one idea that it adds to the kernel that `after` names.
idea: write down in one sentence what this kernel does differently
{after}format: {format}
# Of the values of A, of B, of the sums and of C.
dtype: {{a: {dtype}, b: {dtype}, accumulator: {sums}, c: {dtype}}}
layout: {{b: row_major, c: row_major}}
# The oldest architecture that has its instructions.
min_arch: sm_80
# Numbers that m, k or n must be a multiple of, such as {{n: 8}}; other sizes are not run.
requires: {{}}
# Constants of the code: TILE_M and TILE_N.
tile: {{m: 8, n: 32}}
# Headers of kernels/include/ptx that the code includes, without .cuh.
features: []
# What stands inside <<<grid, block>>>, and the arguments in the order of the code.
launch:
  grid: ceil_div(m, tile.m), ceil_div(n, tile.n)
  block: tile.n, tile.m
  args: {arguments}
# What differs from the text that describes the kernel, and why; a list of sentences.
deviations: []
---*/
"""

_CODE = """\
{header}// C[m x n] = A[m x k] * B[k x n]: a thread computes C[i, j]. ldb and ldc are elements per row of B and C.
extern "C" __global__ void __launch_bounds__(TILE_M* TILE_N) {name}(
    {parameters}) {{
    const int i = blockIdx.x * TILE_M + threadIdx.y;
    const int j = blockIdx.y * TILE_N + threadIdx.x;
    if (i >= m || j >= n) return;
    {sums} sum = 0;
{loop}    c[static_cast<long long>(i) * ldc + j] = {result};
}}
"""

_LOOP = """\
    for (int p = indptr[i]; p < indptr[i + 1]; ++p)
        sum += static_cast<{sums}>(data[p]) * static_cast<{sums}>(b[static_cast<long long>(indices[p]) * ldb + j]);
"""
_EMPTY_LOOP = """\
    // Write the product here. Until then every verification finds C wrong, and nothing is timed.
"""


def create(
    name: str, study: str, format_name: str, dtype: str, after: str | None = None, root: str | Path = "kernels"
) -> Head:
    """Write ``<root>/<study>/<name>.cu``, a kernel that passes every check of its head; return the head.

    For the format ``csr`` the code is a correct, simple product; for any other format it lacks its loop. ``dtype`` is
    that of A, B and C, float64 with sums in float64 and all others in float32. ``after`` names the kernel that the new
    one builds on. Raises :class:`HeadError` for a name that is taken or unfit and for an unknown format or kernel.
    """
    root = Path(root)
    known = registered(str(root))
    if not (root / "include").is_dir():
        raise HeadError(f"{root} holds no kernels; run this in a checkout of the project, or name its folder")
    if root.name != "kernels":  # a kernel finds its headers by this name
        raise HeadError(f"the folder {root} is not called kernels; rename it, or name another one")
    for what, given in (("name", name), ("study", study)):
        if not re.fullmatch("[a-z][a-z0-9_]*", given):
            raise HeadError(f"the {what} is {given!r}; it must be lower-case letters, digits and _, a letter first")
    if name in WORDS:
        raise HeadError(f"{name!r} is a word of C++ or Python; a kernel needs another name")
    taken = {path.stem: path for path in known.refused} | {each.name: each.path for each in known.heads.values()}
    if name in taken:
        raise HeadError(f"the kernel {name!r} exists already, in {taken[name]}")
    if study in _RESERVED:
        raise HeadError(f"{study!r} is no study; a kernel lies in the folder of its study, which may be new")
    if format_name not in FORMATS:
        raise HeadError(f"no format is called {format_name!r}{choices(format_name, FORMATS, 'formats')}")
    if after is not None and after not in known.heads:
        raise HeadError(f"`after` names {after!r}, which is no kernel{suggestion(after, known.heads)}")
    path = root / study / f"{name}.cu"
    if path.exists():
        raise HeadError(f"{path} exists already")
    is_new = not path.parent.exists()
    path.parent.mkdir(exist_ok=True)
    try:
        path.write_text(text(name, study, format_name, dtype, after))
        (head,) = read(path)
    except (OSError, ValueError):
        path.unlink(missing_ok=True)  # nobody asked for a file that the next run would complain about
        if is_new:
            path.parent.rmdir()
        raise
    return head


def text(name: str, study: str, format_name: str, dtype: str, after: str | None = None) -> str:
    """The file of a new kernel; arguments as of :func:`create`."""
    form = FORMATS[format_name]
    arrays = {array: held for array, held in form.array_dtypes(dtype).items() if array not in form.on_request}
    value = min(ELEMENT_TYPES[dtype])
    sums = "double" if dtype == "float64" else "float"
    of_a = [f"const {_INTEGERS.get(held, value)}* __restrict__ {array}" for array, held in arrays.items()]
    parameters = [*of_a, f"const {value}* __restrict__ b", f"{value}* __restrict__ c"]
    parameters += ["int m", "int n", "int ldb", "int ldc"]
    is_csr = format_name == "csr"
    head = _HEAD.format(
        name=name,
        study=study,
        after=f"after: {after}\n" if after else "",
        format=format_name,
        dtype=dtype,
        sums="float64" if dtype == "float64" else "float32",
        arguments=", ".join([*(f"a.{array}" for array in arrays), "b", "c", "m", "n", "b.ld", "c.ld"]),
    )
    code = _CODE.format(
        header=_HEADERS.get(dtype, ""),
        name=name,
        parameters=",\n    ".join(parameters),
        sums=sums,
        loop=_LOOP.format(sums=sums) if is_csr else _EMPTY_LOOP,
        result=f"static_cast<{value}>(sum)",
    )
    return head + code
