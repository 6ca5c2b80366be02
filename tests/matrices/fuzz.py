"""Thousands of broken inputs for the readers of foreign files: ``python -m tests.matrices.fuzz --seconds 600``.

A reader takes a file or refuses it by its own error with a sentence. Anything else, be it another exception, too much
memory or too much time, is a finding: its input is kept under ``build/fuzz`` and belongs into ``test_fuzz.py``.
"""

import argparse
import io
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import yaml
from scipy.io import mmwrite
from scipy.sparse import random_array, save_npz

from spmm_roofline import contracts
from spmm_roofline.matrices import expand
from spmm_roofline.matrices.canonical import MatrixError, canonical
from spmm_roofline.matrices.file import read

SUITE = {
    "name": "mine",
    "title": "some",
    "matrices": {
        "suitesparse": ["HB/bcsstk32", {"name": "HB/bcsstk30", "kind": "structural"}],
        "dlmc": {"model": "transformer", "methods": ["magnitude_pruning"], "sparsities": [0.5], "layers": ["q"]},
        "file": [{"path": "a.mtx", "name": "a"}],
        "generated": [{"generator": "mesh2d", "name": "m", "nodes": 8}],
    },
    "n": [32, 128],
    "kernels": ["smat/*"],
    "protocol": {"l2": "cold"},
}
RB = """a title                                                                 key
             3             1             1             1
rua                        3             3             3             0
(4I4)           (3I4)           (3E12.4)
   1   2   3   4
   1   2   3
  1.0000E+00  2.0000E+00  3.0000E+00
"""
#: Words that break readers of numbers, texts and lists.
WORDS = [
    *(b"-1", b"0", b"1", b"2147483648", b"9223372036854775808", b"1e999", b"nan", b"inf", b"", b"\x00", b"\xff"),
    *(b"%", b"\n", b" ", b",", b"complex", b"pattern", b"symmetric", b"hermitian", b"array", b"skew-symmetric"),
    *(b"!!python/object/apply:os.system [id]", b"&a [*a]", b"{", b"[", b"? ", b"<<: *x", b"../", b"$(id)", b"1_000"),
]


def seeds():
    """Ending → honest files, as bytes."""
    matrix = random_array((9, 7), density=0.3, rng=np.random.default_rng(1), format="csr")
    square = random_array((6, 6), density=0.4, rng=np.random.default_rng(2), format="csr")
    texts = []
    for given, symmetry in ((matrix, "general"), (square + square.T, "symmetric")):
        for field in ("real", "pattern"):
            stream = io.BytesIO()
            mmwrite(stream, given, symmetry=symmetry, field=field)
            texts.append(stream.getvalue())
    scipy, edges = io.BytesIO(), io.BytesIO()
    save_npz(scipy, matrix, compressed=False)
    np.savez(edges, src_li=np.array([0, 1, 2]), dst_li=np.array([1, 2, 0]), num_nodes=np.array(3))
    lists = (" ".join(map(str, values)) for values in (matrix.indptr, matrix.indices))
    return {
        "mtx": texts,
        "smtx": [("9, 7, {}\n{}\n{}\n".format(matrix.nnz, *lists)).encode()],
        "npz": [scipy.getvalue(), edges.getvalue()],
        "rb": [RB.encode()],
        "yaml": [yaml.safe_dump(SUITE, sort_keys=False).encode()],
    }


def mutated(data: bytes, draw: random.Random) -> bytes:
    """``data`` after one to four damages: bytes flipped, words inserted or exchanged, sections cut, doubled, moved."""
    for _ in range(draw.randint(1, 4)):
        start = draw.randrange(len(data) + 1)
        end = min(len(data), start + draw.choice((1, 1, 2, 4, 16, 64)))
        damage = draw.randrange(7)
        if damage == 0:
            data = data[:start] + bytes(draw.randrange(256) for _ in data[start:end]) + data[end:]
        elif damage == 1:
            data = data[:start] + draw.choice(WORDS) + data[start:]
        elif damage == 2:
            data = data[:start] + data[end:]
        elif damage == 3:
            data = data[:end] + data[start:]
        elif damage == 4:
            data = data[:start]
        else:
            words = data.split(b" ") if damage == 5 else data.split(b"\n")
            words[draw.randrange(len(words))] = draw.choice(WORDS)
            data = (b" " if damage == 5 else b"\n").join(words)
    return data


def attempt(ending: str, data: bytes, folder: Path) -> str:
    """What is wrong with how a reader handles ``data``; empty if it reads or refuses it as it should."""
    path = folder / f"input.{ending}"
    path.write_bytes(data)
    began, rows = time.process_time(), 0
    try:
        if ending == "yaml":
            expand(contracts.document(path, "suite"), {"matrices": {"suitesparse": {}, "dlmc": {}, "cache": "."}})
        else:
            entries = read(path)
            rows = entries.shape[0]
            canonical(entries, "input")
    except (MatrixError, contracts.ContractError) as error:
        if not str(error):
            return "an error without a sentence"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    taken = time.process_time() - began
    # Even an empty matrix costs one pointer per row.
    return f"{taken:.1f} s" if taken > 5 + 1e-7 * rows else ""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    draw, found, count = random.Random(options.seed), {}, 0
    honest = seeds()
    kept = Path("build/fuzz")
    kept.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < until:
            ending = draw.choice(list(honest))
            data = mutated(draw.choice(honest[ending]), draw)
            (kept / "last").write_bytes(data)  # kept in case the interpreter itself crashes
            wrong = attempt(ending, data, Path(folder))
            count += 1
            kind = f"{ending}: {wrong.split(':')[0]}"
            if wrong and kind not in found:
                found[kind] = wrong
                (kept / f"{len(found)}.{ending}").write_bytes(data)
                print(f"{len(found)}.{ending}: {wrong[:300]}", flush=True)
    print(f"{count} inputs, {len(found)} kinds of findings, seed {options.seed}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
