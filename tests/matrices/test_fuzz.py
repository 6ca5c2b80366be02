"""Broken files: a small round of :mod:`tests.matrices.fuzz`, and what its long rounds found."""

import io
import random
import tokenize
import zipfile

import numpy as np
import pytest

from spmm_roofline.matrices.canonical import MatrixError
from spmm_roofline.matrices.file import read
from tests.matrices.fuzz import attempt, mutated, seeds

HEADER = b"%%MatrixMarket matrix coordinate real general\n"
#: A key that is an anchor and nothing else.
SUITE = b"name: a\ntitle: a title\nmatrices:\n  generated:\n  - generator: mesh2d\n    &ame: m\n    nodes: 8\nn: [8]\n"
RB_HEAD = b"title\n 3 1 1 1\nrua 3 3 3 0\n"


@pytest.mark.parametrize("ending", seeds())
def test_honest_files_are_read(ending, tmp_path):
    for data in seeds()[ending]:
        assert attempt(ending, data, tmp_path) == ""


@pytest.mark.parametrize("ending", seeds())
def test_broken_files_are_read_or_refused_with_a_sentence(ending, tmp_path):
    draw, honest = random.Random(7), seeds()[ending]
    for _ in range(300):
        data = mutated(draw.choice(honest), draw)
        assert attempt(ending, data, tmp_path) == "", data


@pytest.mark.parametrize("bit", [0, 5], ids=["encrypted", "patched"])
def test_archives_that_python_does_not_unpack_are_refused(bit, tmp_path):
    data = bytearray(seeds()["npz"][1])
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + flags] |= 1 << bit
    assert attempt("npz", bytes(data), tmp_path) == ""


def test_an_array_whose_header_never_ends_is_refused(tmp_path):
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(seeds()["npz"][1])) as honest, zipfile.ZipFile(stream, "w") as broken:
        for name in honest.namelist():
            broken.writestr(name, honest.read(name).replace(b"), } ", b"), }("))
    assert attempt("npz", stream.getvalue(), tmp_path) == ""
    stream.seek(0)
    with np.load(stream) as arrays, pytest.raises(tokenize.TokenError):
        arrays["num_nodes"]


@pytest.mark.parametrize("pointers", [[0, 15_728_641, 3], [0, 3, 2], [0, -5, 3]])
def test_row_pointers_that_go_astray_are_refused(pointers, tmp_path):
    """SciPy crashed the interpreter: it wrote a row's number as many times as the pointers claimed."""
    stream = io.BytesIO()
    csr = {"format": b"csr", "shape": (2, 4), "data": np.ones(3), "indices": np.arange(3), "_is_array": True}
    np.savez(stream, indptr=np.array(pointers, dtype=np.int32), **csr)
    (tmp_path / "astray.npz").write_bytes(stream.getvalue())
    with pytest.raises(MatrixError, match="non-decreasing"):
        read(tmp_path / "astray.npz")


@pytest.mark.parametrize(
    ("ending", "data"),
    [
        # The first three crashed the interpreter: SciPy's parser read beyond the end of the text.
        ("mtx", HEADER + b"9 7 19\n8 2 4.85x"),
        ("mtx", HEADER + b"9 7 2\n8 2 4.85 "),
        ("mtx", HEADER + b"9 7 9\n1 7.9\x00860399E-1\n7 1_000 9.17297704"),
        ("mtx", HEADER + b"9 7 2\n8 2 4\n8 2 3 9999"),
        ("mtx", HEADER + b"3 3 2\n1 1 1.5\n 3 1.6\n"),
        ("rb", RB_HEAD + b"(4I49223372036854775808) (3I4) (3E12.4)\n 1 2 3 4\n"),
        ("rb", RB_HEAD + b"(21474836484I4) (3I4) (3E12.4)\n 1 2 3 4\n"),
        ("rb", RB_HEAD + b"(1I2000000000) (3I4) (3E12.4)\n 1 2 3 4\n"),
        ("yaml", b"name: mine\n? [a, b]\n: c\n"),
        ("yaml", b"? {a: b}\n: c\n"),
        ("yaml", SUITE + b"kernels: [smat/*]\nprotocol: {l2: cold}\n"),
    ],
)
def test_what_was_found_stays_mended(ending, data, tmp_path):
    assert attempt(ending, data, tmp_path) == ""
