"""Docstrings of what programs import: complete, and their examples run, on the emulated device."""

import doctest

import numpy as np
import pytest
from scipy import sparse

import spmm_roofline
from spmm_roofline import paths
from tests import emulation

validate = pytest.importorskip("numpydoc.validate", reason="needs the extra docs: make test installs it")

OFFERED = [name for name in spmm_roofline._OFFERED if not name.endswith("Error")]
OPERATORS = ("spmm", "sddmm", "linear")
#: Rules of numpydoc that the docstrings keep: parameters, returns, errors and their order. Types are annotations.
KEPT = {"GL07", "GL08", "PR01", "PR02", "PR03", "PR09", "RT03", "SS01"}


def documented(name):
    if name in OPERATORS:
        pytest.importorskip("torch")
    return getattr(spmm_roofline, name)


@pytest.mark.parametrize("name", OFFERED)
def test_a_docstring_says_what_goes_in_and_what_comes_out(name):
    documented(name)
    found = validate.validate(f"spmm_roofline.{name}")
    errors = [f"{code}: {what}" for code, what in found["errors"] if code in KEPT]
    assert not errors, f"{name}: {'; '.join(errors)}"


@pytest.mark.parametrize("name", OFFERED)
def test_the_examples_of_a_docstring_run(name, cupy):
    rng = np.random.default_rng(0)
    a = sparse.random_array((50, 70), density=0.1, format="csr", rng=rng)
    mask = sparse.random_array((40, 40), density=0.2, format="csr", rng=rng)
    q = cupy.asarray(rng.standard_normal((2, 40, 64)).astype("float16"))
    names = {"a": a, "mask": mask, "q": q, "k": q, "v": q}
    names |= {"b": cupy.asarray(rng.standard_normal((70, 16)).astype("float16"))}
    names |= {"bias": cupy.asarray(rng.standard_normal(16).astype("float16"))}
    examples = doctest.DocTestParser().get_examples(documented(name).__doc__)
    assert examples, f"the docstring of {name} has no example"
    if name in OPERATORS:
        import torch

        with emulation.of_tensors():
            names |= {"b": torch.randn(70, 16), "x": torch.randn(2, 8, 70)}
            exec("".join(example.source for example in examples), names)
    else:
        exec("".join(example.source for example in examples), names)


def test_the_page_on_the_api_has_all_that_is_offered():
    page = (paths.SCHEMAS.parents[1] / "docs" / "use" / "api.md").read_text()
    for name in spmm_roofline._OFFERED:
        assert f":: {name}\n" in page, f"docs/use/api.md lacks {name}"
