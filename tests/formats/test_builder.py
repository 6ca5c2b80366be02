"""The code that packs on a device compiles for every architecture, and makes what the host does."""

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from spmm_roofline.formats import FORMATS, builder, csr_shares, csr_split, windows
from spmm_roofline.formats.base import Survey
from spmm_roofline.kernels.compile import cubin_of

#: Code that packs, its macros, and the format that it makes.
PACKS = [
    (csr_shares.BUILDER, csr_shares.BUILDER_DEFINES, "csr_shares"),
    (csr_split.BUILDER, csr_split.builder_defines(2), "csr_split"),
    (windows.BUILDER, windows.builder_defines(8), "vectors_8x1"),
    (windows.BUILDER, windows.builder_defines(16), "vectors_16x1"),
]


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize("path, defines, name", PACKS)
def test_the_code_compiles(path, defines, name, arch, tmp_path):
    code, resources = cubin_of(builder.source(path), name, arch, defines, tmp_path)
    assert code and not resources["spill_store_bytes"]


def rows_of_all_lengths():
    """Empty and long rows beside each other, long ones without a column in common, and equal ones."""
    rng = np.random.default_rng()
    full = rng.random((3, 2000)) < 0.9
    none = np.zeros((3, 2000), dtype=bool)
    some = rng.random((300, 4000)) < rng.choice([0, 0.001, 0.02, 0.3], (300, 1))
    same = np.repeat(rng.random((1, 4000)) < 0.2, 33, axis=0)
    pattern = np.vstack([some, np.hstack([full, none]), np.hstack([none, full]), same, some[:5]])
    return csr_array(pattern * (rng.random(pattern.shape) + 0.5))


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{}, {"ctas": 7}, {"ctas": 60}, {"ctas": 7, "warps": 12}, {"ctas": 7, "groups": 3}])
@pytest.mark.parametrize("density", [0.0, 0.002, 0.3, "of all lengths"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", [name for _, _, name in PACKS])
def test_a_device_packs_as_a_host_does(name, dtype, density, options):
    import cupy
    import cupyx.scipy.sparse as sparse

    pack = FORMATS[name].from_csr
    options = {name: value for name, value in options.items() if name in pack.__annotations__}
    if isinstance(density, str):
        a = rows_of_all_lengths()
    else:
        a = random_array((3001, 1500), density=density, format="csr", rng=np.random.default_rng())
    on_host, on_device = (pack(matrix, dtype=dtype, **options) for matrix in (a, sparse.csr_matrix(a)))
    for field, array in on_host.arrays().items():
        other = cupy.asnumpy(getattr(on_device, field))
        # Values of bfloat16 are whole numbers on a device: bits are compared.
        assert (array.shape, array.tobytes()) == (other.shape, other.tobytes()), field


@pytest.mark.gpu
@pytest.mark.parametrize("shape, density", [((3001, 1500), 0.01), ((1, 1), 1.0), ((0, 5), 0.0), ((200_000, 50), 0.002)])
@pytest.mark.parametrize("name", ["vectors_8x1", "vectors_16x1"])
def test_a_survey_says_what_packing_finds_and_serves_it(name, shape, density):
    import cupyx.scipy.sparse as sparse

    a = random_array(shape, density=density, format="csr", rng=np.random.default_rng())
    pack = FORMATS[name]
    longest = int(np.diff(a.indptr).max(initial=0))
    on_device = sparse.csr_matrix(a)
    survey, packed = pack.survey(on_device), pack.from_csr(a, warps=12)
    assert survey == pack.survey(a) == Survey(packed.blocks, longest)
    for _ in range(2):  # packing changes nothing of what it goes on from
        again = pack.from_csr(on_device, survey=survey, warps=12)
        assert all((getattr(again, name).get() == array).all() for name, array in packed.arrays().items())
