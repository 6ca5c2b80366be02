"""Packers on a device make the same arrays as the host."""

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from spmm_roofline.formats import FORMATS, FormatError
from spmm_roofline.formats.base import Survey
from spmm_roofline.formats.windows import TILE_K
from spmm_roofline.kernels.registry import head

PACKED = [name for name in FORMATS if FORMATS[name].packer]


@pytest.mark.parametrize("name", PACKED)
def test_a_format_and_its_packer_agree_on_tiles(name):
    form, packer = FORMATS[name], head(FORMATS[name].packer)
    assert packer.study == "packing"
    assert packer.tile == ({"window": form.window, "k": TILE_K} if hasattr(form, "window") else {})


@pytest.mark.parametrize("name", PACKED)
def test_a_forgotten_packer_is_named(name):
    with pytest.raises(FormatError, match=f"kernel '{FORMATS[name].packer}'"):
        FORMATS[name].given(None)


def rows_of_all_lengths():
    """Empty rows beside long ones, long rows without a common column, and equal rows."""
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
@pytest.mark.parametrize("name", PACKED)
def test_a_device_packs_as_a_host_does(name, dtype, density, options):
    import cupy
    import cupyx.scipy.sparse as sparse

    from spmm_roofline.kernels.packers import pack, packer_of

    form = FORMATS[name]
    options = {name: value for name, value in options.items() if name in form.from_csr.__annotations__}
    if isinstance(density, str):
        a = rows_of_all_lengths()
    else:
        a = random_array((3001, 1500), density=density, format="csr", rng=np.random.default_rng())
    on_host = form.from_csr(a, dtype=dtype, **options)
    on_device = pack(form, sparse.csr_matrix(a), dtype, options, packer_of(form))
    for field, array in on_host.arrays().items():
        other = cupy.asnumpy(getattr(on_device, field))
        # bfloat16 values are integers on a device, so bits are compared.
        assert (array.shape, array.tobytes()) == (other.shape, other.tobytes()), field


@pytest.mark.gpu
@pytest.mark.parametrize("shape, density", [((3001, 1500), 0.01), ((1, 1), 1.0), ((0, 5), 0.0), ((200_000, 50), 0.002)])
@pytest.mark.parametrize(
    ("name", "options"),
    [("vectors_8x1", {"warps": 12}), ("vectors_16x1", {"warps": 12}), ("panels_64x32", {"ctas": 3})],
)
def test_a_survey_agrees_with_packing_and_is_reused(name, options, shape, density):
    import cupyx.scipy.sparse as sparse

    a = random_array(shape, density=density, format="csr", rng=np.random.default_rng())
    from spmm_roofline.kernels.packers import packer_of

    form = FORMATS[name]
    packer = packer_of(form)
    longest = int(np.diff(a.indptr).max(initial=0))
    on_device = sparse.csr_matrix(a)
    survey, packed = form.survey(on_device, packer), form.from_csr(a, **options)
    assert survey == form.survey(a) == Survey(packed.blocks, longest)
    assert form.survey(on_device, packer, longest) == form.survey(a, longest=longest) == survey
    for _ in range(2):  # packing changes nothing that the survey keeps
        again = form.from_csr(on_device, survey=survey, packer=packer, **options)
        assert all((getattr(again, name).get() == array).all() for name, array in packed.arrays().items())
