"""External libraries: their descriptions of themselves, how they are called, and files that are no such library."""

import ctypes
import gc
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from scipy.sparse import csr_array, random_array

from spmm_roofline.analysis import roofline
from spmm_roofline.formats.csr import Csr
from spmm_roofline.kernels import HeadError, heads
from spmm_roofline.kernels.launch import Unsupported, check_case, library_version, prepare
from spmm_roofline.kernels.libraries import _external
from spmm_roofline.kernels.libraries._external import (
    ABI_VERSION,
    DTYPES,
    UNITS,
    ExternalError,
    Library,
    Product,
)
from spmm_roofline.kernels.operands import Dense
from spmm_roofline.measure.verify import TOLERANCES
from spmm_roofline.plan import Plan
from spmm_roofline.suites import resolve
from tests.kernels.external.build import INCLUDE, on_device, on_host
from tests.kernels.test_launch import SHAPES, multiply, structure


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The stand-in, loaded."""
    return Library(on_host(tmp_path_factory.mktemp("external") / "libon_host.so"))


def alive(library):
    """Products that the stand-in holds."""
    gc.collect()
    return ctypes.CDLL(str(library.path)).on_host_alive()


# --- calls ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "k", "density"), [(1, 1, 1.0), (33, 47, 0.2), (200, 40, 0.05), (40, 200, 0.0)])
@pytest.mark.parametrize("n", [1, 8, 33])
def test_the_product_is_right(library, m, k, density, n):
    rng = np.random.default_rng()
    a = csr_array(random_array((m, k), density=density, rng=rng, format="csr"))
    b, c = rng.random((k, n), dtype="float32"), np.full((m, n), np.nan, "float32")
    # The call converts indices and values to the dtypes of the ABI.
    product = Product(library.kernels[0], a.shape, a.indptr.astype("int64"), a.indices, a.data, n)
    for _ in range(2):
        product.run(n, b.ctypes.data, c.ctypes.data, 0)
        np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    assert product.nbytes == (m + 1) * 4 + a.nnz * 8


EMPTY = (np.zeros(4, "int32"), np.zeros(0, "int32"), np.zeros(0, "float32"))


def test_a_product_is_destroyed_with_its_object(library):
    before = alive(library)
    products = [Product(library.kernels[0], (3, 5), *EMPTY, n) for n in (1, 2)]
    assert alive(library) == before + 2
    del products
    assert alive(library) == before


@pytest.mark.parametrize(
    ("n", "error", "sentence"),
    [
        (961, Unsupported, r"^there is nothing for n = 961$"),
        (962, MemoryError, r"^there is nothing for n = 962$"),
        (963, ExternalError, r"^create of libon_host\.so returned 700: there is nothing for n = 963$"),
    ],
)
def test_a_refusal_is_an_error_in_the_words_of_the_library(library, n, error, sentence):
    before = alive(library)
    with pytest.raises(error, match=sentence):
        Product(library.kernels[0], (3, 5), *EMPTY, n)
    assert alive(library) == before


def test_a_call_that_fails_without_a_word(library):
    with pytest.raises(ExternalError, match=r"run of libon_host\.so returned 1000: the library does not say why"):
        Product(library.kernels[0], (3, 5), *EMPTY, 8).run(8, 0, 0, 1)


class OnDevice(np.ndarray):
    """An array that gives its address as CuPy does."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)


@pytest.fixture
def no_device(monkeypatch):
    """The functions of CuPy that a library call needs, on the host."""
    pool = SimpleNamespace(free_all_blocks=lambda: None)
    cuda = SimpleNamespace(Device=lambda: SimpleNamespace(synchronize=lambda: None))
    cupy = SimpleNamespace(asnumpy=np.asarray, get_default_memory_pool=lambda: pool, cuda=cuda)
    monkeypatch.setitem(sys.modules, "cupy", cupy)


def test_a_kernel_of_every_width_makes_one_product_of_a_matrix(tmp_path, no_device):
    path = on_host(tmp_path / "two.so", KERNELS=2)
    found, library = heads(external=(str(path),)), ctypes.CDLL(str(path))
    a = csr_array(random_array((60, 50), density=0.1, rng=np.random.default_rng(), format="csr"))
    packed = [Csr.from_csr(a), Csr.from_csr(a)]
    created, spent = [], []
    for form in packed:
        for n in (16, 8, 33):
            b, c = (np.ones((rows, n), "float32").view(OnDevice) for rows in (50, 60))
            operands = Dense(b, 50, n, False, "float32"), Dense(c, 60, n, False, "float32")
            call = prepare(found["peer_of_every_width"], None, form, *operands)
            call(SimpleNamespace(ptr=0))
            np.testing.assert_allclose(c, a @ np.asarray(b), rtol=1e-5)
            created.append(library.on_host_created())
            spent.append(call.preprocess_ms)
    assert created == [2, 2, 2, 3, 3, 3], "the first product of a process is made twice"
    assert spent[0] == spent[1] == spent[2] > 0 and spent[3] == spent[5]
    del call, packed, form
    gc.collect()
    assert library.on_host_alive() == 0, "a product is kept no longer than its matrix"
    # The other kernel of the library makes one for each width.
    for number, n in enumerate((16, 8)):
        b, c = (np.ones((rows, n), "float32").view(OnDevice) for rows in (50, 60))
        operands = Dense(b, 50, n, False, "float32"), Dense(c, 60, n, False, "float32")
        prepare(found["peer_on_host"], None, Csr.from_csr(a), *operands)
        assert library.on_host_created() == 3 + 2 + number


def test_a_first_product_that_takes_long_is_not_made_again(tmp_path, no_device, monkeypatch):
    path = on_host(tmp_path / "slow.so")
    monkeypatch.setattr(_external, "LOADING_MS", 0.0)
    b, c = (np.ones((rows, 8), "float32").view(OnDevice) for rows in (5, 3))
    operands = Dense(b, 5, 8, False, "float32"), Dense(c, 3, 8, False, "float32")
    prepare(heads(external=(str(path),))["peer_on_host"], None, Csr.from_csr(csr_array((3, 5))), *operands)
    assert ctypes.CDLL(str(path)).on_host_created() == 1


def test_a_library_of_version_1_still_multiplies(tmp_path, no_device):
    path = on_host(tmp_path / "old.so", "on_host_1.c")
    head = heads(external=(str(path),))["peer_of_version_1"]
    a = csr_array(random_array((60, 50), density=0.1, rng=np.random.default_rng(), format="csr"))
    for n in (16, 33):
        b, c = (np.ones((rows, n), "float32").view(OnDevice) for rows in (50, 60))
        operands = Dense(b, 50, n, False, "float32"), Dense(c, 60, n, False, "float32")
        prepare(head, None, Csr.from_csr(a), *operands)(SimpleNamespace(ptr=0))
        np.testing.assert_allclose(c, a @ np.asarray(b), rtol=1e-5)


def test_it_is_launched_like_every_kernel(library, no_device):
    rng = np.random.default_rng()
    head = heads(external=(str(library.path),))["peer_on_host"]
    a = csr_array(random_array((60, 50), density=0.1, rng=rng, format="csr"))
    b, c = (np.zeros((rows, 16), "float32").view(OnDevice) for rows in (50, 60))
    b[...] = rng.random(b.shape)
    before = alive(library)
    for _ in range(2):  # the first product of a process is created twice
        call = prepare(
            head, None, Csr.from_csr(a), Dense(b, 50, 16, False, "float32"), Dense(c, 60, 16, False, "float32")
        )
        c.fill(np.nan)
        call(SimpleNamespace(ptr=0))
        np.testing.assert_allclose(c, a @ np.asarray(b), rtol=1e-5)
        assert call.preprocess_ms > 0 and call.format_bytes == 61 * 4 + a.nnz * 8
        assert alive(library) == before + 1
    del call
    assert alive(library) == before


# --- heads ----------------------------------------------------------------------------------------------------------


def test_a_library_is_a_kernel_of_its_name(library):
    found = heads(external=(str(library.path),))
    head = found["peer_on_host"]
    assert found.keys() - heads().keys() == {"peer_on_host"}
    assert (head.study, head.vendor, head.format, head.unit) == ("external", "external", "csr", "cuda")
    assert head.dtype == {"a": "float32", "b": "float32", "accumulator": "float32", "c": "float32"}
    assert head.source == "a library of the tests" and library_version(head) == "libon_host.so"


def test_kernels_of_one_library_have_fingerprints_of_their_own(tmp_path):
    found = heads(external=(str(on_host(tmp_path / "two.so", KERNELS=2)),))
    assert found["peer_on_host"].sha256() != found["peer_of_every_width"].sha256()


def test_widths_that_a_library_does_not_take_are_unsupported(tmp_path):
    head = Library(on_host(tmp_path / "a.so", N_MULTIPLE=8)).kernels[0].head()
    check_case(head, 10, 16, 10)
    with pytest.raises(Unsupported, match="peer_on_host needs n to be a multiple of 8, not 12"):
        check_case(head, 10, 12, 10)


def test_sums_of_tensor_cores_have_the_tolerance_of_tensor_cores(tmp_path):
    head = Library(on_host(tmp_path / "a.so", DTYPE='"float16"', UNIT='"tensor"')).kernels[0].head()
    assert (head.dtype["accumulator"], head.dtype_of_sums, head.dtype["c"]) == ("float32", "tf32", "float32")


@pytest.mark.parametrize("dtypes", DTYPES, ids="-".join)
def test_every_choice_of_dtypes_has_a_tolerance(library, monkeypatch, dtypes):
    said = dict(zip(("dtype", "dtype_sums", "dtype_c"), dtypes, strict=True))
    kernel = library.kernels[0]
    monkeypatch.setattr(kernel, "_texts", {**kernel._texts, **said})
    head = kernel.head()
    assert (head.dtype_of_sums, head.dtype["c"]) in TOLERANCES


@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit])
def test_the_units_are_those_of_the_roofline(unit):
    dtype = {"a": "float32", "accumulator": "float32"}
    assert roofline.unit({"vendor": "external", "unit": unit, "dtype": dtype}) == f"float32_{unit}"


def test_the_header_is_of_the_version_that_is_called():
    header = (INCLUDE / "spmm_peer.h").read_text()
    assert re.findall(r"define SPMM_PEER_ABI_VERSION (\d+)", header) == [str(ABI_VERSION)]


def test_the_fingerprint_is_that_of_the_file(tmp_path):
    one = Library(on_host(tmp_path / "one.so")).kernels[0].head().sha256()
    (tmp_path / "moved").mkdir()
    (tmp_path / "moved/two.so").write_bytes((tmp_path / "one.so").read_bytes())
    assert Library(tmp_path / "moved/two.so").kernels[0].head().sha256() == one
    assert Library(on_host(tmp_path / "three.so", FACTOR="2.0f")).kernels[0].head().sha256() != one


# --- files that are no such library ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("defines", "sentence"),
    [
        ({"ABI": 3}, "the library speaks version 3 of the ABI, this is version 2"),
        ({"WITHOUT_COUNT": 1}, "the library exports no spmm_peer_count"),
        ({"KERNELS": 0}, "the library holds 0 kernels, and must hold at least 1"),
        ({"KERNELS": 3}, "the library holds 3 kernels, and says nothing of number 2"),
        ({"WITHOUT_RUN": 1}, "the library exports no spmm_peer_run"),
        ({"NAME": '"My-SpMM"'}, "the library calls its kernel 'My-SpMM'; a name is"),
        ({"NAME": "0"}, "the library calls its kernel ''; a name is"),
        (
            {"NAME": '"mma_bt"'},
            r"the name 'mma_bt' is taken by this project's kernel of the study smat, in .*mma_bt\.cu; call the "
            "library's kernel 'mma_bt_peer', for example$",
        ),
        ({"KERNELS": 2, "SECOND": "NAME"}, "the name 'peer_on_host' is taken by another external kernel, in .*lib.so"),
        (
            {"DTYPE": '"half"'},
            "dtypes of A and B, sums and C of peer_on_host are 'half', 'float32', 'float32'; they can be float32",
        ),
        ({"DTYPE": '"tf32"', "DTYPE_C": '"tf32"'}, "C of a product in TF32 is stored in full, as 'float32'"),
        ({"N_MULTIPLE": 0}, "the library's n_multiple of peer_on_host is 0, and must be at least 1"),
        ({"UNIT": '"avx"'}, "the library's unit of peer_on_host is 'avx'; it can be cuda, tensor, tensor_sparse24$"),
        ({"AT_LOAD": "abort()"}, "the library ends the process that loads it .*, by a crash or an exit"),
        ({"AT_LOAD": "exit(0)"}, "the library ends the process that loads it .*, by a crash or an exit"),
    ],
)
def test_a_library_that_cannot_be_is_refused(tmp_path, defines, sentence):
    path = on_host(tmp_path / "lib.so", **defines)
    with pytest.raises(HeadError, match=sentence) as caught:
        heads(external=(str(path),))
    assert str(caught.value).startswith(f"{path}: ")


def test_a_file_that_is_no_library_is_refused(tmp_path):
    path = tmp_path / "lib.so"
    with pytest.raises(HeadError, match=r"lib\.so: kernels\.external names this library, and there is no such file"):
        heads(external=(str(path),))
    path.write_text("not really")
    with pytest.raises(HeadError, match=r"lib\.so: this cannot be loaded as a shared library: "):
        heads(external=(str(path),))


def test_a_library_of_something_else_is_refused(tmp_path):
    import math

    with pytest.raises(HeadError, match="the library exports no spmm_peer_about"):
        heads(external=(math.__file__,))


def test_two_libraries_of_one_name_are_refused(tmp_path):
    paths = [on_host(tmp_path / name) for name in ("a.so", "b.so")]
    with pytest.raises(
        HeadError, match=r"b\.so: the name 'peer_on_host' is taken by another external kernel, in .*a\.so"
    ):
        heads(external=tuple(map(str, paths)))


# --- the plan -------------------------------------------------------------------------------------------------------


@pytest.fixture
def planned(library):
    """A plan of two suites, neither of which names external kernels, with the stand-in in the config."""
    with open("config/config.yaml") as file:
        config = yaml.safe_load(file)
    config["measure"] |= {"device": "h200", "suites": ["quick", "gemm24"]}
    config["kernels"]["external"] = [str(library.path)]
    return Plan(config)


def test_a_library_is_measured_in_every_suite(planned, library):
    for suite in ("quick", "gemm24"):
        assert f"results/measure/h200/{suite}/peer_on_host.csv" in planned.measured_of(suite)
    assert "csr" in planned.suites["gemm24"].formats
    assert "peer_on_host" not in planned.compiled
    assert planned.fingerprints["peer_on_host"] == library.kernels[0].head().sha256()


def test_only_its_own_jobs_load_a_library(planned, library):
    folder = f"results/measure/{planned.device_name}/quick"
    job = planned.job(f"{folder}/peer_on_host.csv")
    assert job.external == (str(library.path),) and job.cubin is None
    assert planned.job(f"{folder}/mma_bt.csv").external == ()


def test_a_library_may_lie_in_the_home_folder(planned, library, monkeypatch):
    monkeypatch.setenv("HOME", str(library.path.parent))
    kernels = planned.config["kernels"] | {"external": [f"~/{library.path.name}"]}
    assert Plan(planned.config | {"kernels": kernels}).heads["peer_on_host"].path == library.path


def test_patterns_find_it_by_its_study(planned):
    assert resolve(["external/*"], planned.heads) == (["peer_on_host"], [])


# --- on a device ----------------------------------------------------------------------------------------------------

VALUES = {
    "float32": {},
    "float16": {"VALUE": "__half", "DTYPE": '"float16"', "NARROW": 1},
    "bfloat16": {"VALUE": "__nv_bfloat16", "DTYPE": '"bfloat16"'},
}


@pytest.fixture(scope="module", params=VALUES)
def on_device_heads(request, tmp_path_factory):
    """The heads of the CUDA library in one precision; building and asking it needs no GPU."""
    from spmm_roofline.measure.device import visible

    gpus = visible()
    path = tmp_path_factory.mktemp("external") / f"lib{request.param}.so"
    on_device(path, gpus[0].arch if gpus else "sm_90", **VALUES[request.param])
    return [head for name, head in heads(external=(str(path),)).items() if name.startswith("peer_on_device")]


def test_a_cuda_library_describes_itself_without_a_gpu(on_device_heads):
    precision = on_device_heads[0].path.stem.removeprefix("lib")
    assert all(head.dtype["a"] == head.dtype["c"] == precision for head in on_device_heads)
    sums = [head.dtype["accumulator"] for head in on_device_heads]
    assert sums == (["float32", "float16"] if precision == "float16" else ["float32"])


@pytest.mark.gpu
def test_a_cuda_library_is_right_on_every_shape(on_device_heads):
    rng = np.random.default_rng()
    for m, k in SHAPES:
        for density in (0.0, 0.05, 0.6):
            for n in (1, 8, 33, 128):
                for head in on_device_heads:
                    verdict = multiply(head, structure(m, k, density, rng), n)
                    assert not verdict.wrong, f"{head.name} {m}×{k} density {density} n {n}: {verdict.wrong}"
