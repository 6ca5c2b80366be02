"""Advice for a matrix: select() on every kind of matrix, question and model, in a small environment too."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import spmm_roofline
from spmm_roofline.kernels.arch import obstacle
from spmm_roofline.matrices.canonical import MatrixError
from spmm_roofline.matrices.features import features
from spmm_roofline.measure.device import Gpu
from spmm_roofline.paths import MODEL
from spmm_roofline.selector import advice, document
from spmm_roofline.selector.advice import select
from spmm_roofline.selector.devices import extrapolated
from spmm_roofline.selector.preprocessing import calls_to_pay_back, learnt
from spmm_roofline.selector.question import DTYPES, SelectionError, conditions
from spmm_roofline.selector.terms import Work
from spmm_roofline.selector.words import notes, printed

PRECISIONS = tuple(dict.fromkeys(DTYPES.values()))


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    """Advice is for the recorded device, whatever GPU this machine has."""
    monkeypatch.setattr("spmm_roofline.measure.device.visible", list)


def random_matrix(m=4096, k=4096, density=0.002, seed=0):
    return sparse.random_array((m, k), density=density, format="csr", rng=np.random.default_rng(seed))


def sound(found):
    """``found``, once everything that holds of any advice is checked."""
    assert found.choices and found.kernel == found.choices[0].kernel
    times = [choice.time_ms for choice in found.choices]
    assert times == sorted(times)
    for choice in found.choices:
        assert np.isfinite(choice.time_ms) and 0 < choice.low_ms < choice.time_ms < choice.high_ms < np.inf
        assert sum(choice.shares.values()) == pytest.approx(1.0)
        assert min(choice.shares.values()) >= 0 and choice.bound == max(choice.shares, key=choice.shares.get)
        assert choice.dtype["a"] == found.precision
    assert found.reason.startswith(found.kernel) and found.close[0] == found.choices[0]
    return found


@settings(max_examples=40, deadline=None)
@given(
    m=st.integers(1, 300),
    k=st.integers(1, 300),
    density=st.sampled_from([0.0, 0.01, 0.3, 1.0]),
    n=st.sampled_from([1, 7, 8, 128, 4096]),
    dtype=st.sampled_from(PRECISIONS),
    l2=st.sampled_from(["cold", "warm"]),
)
def test_every_matrix_gets_advice(m, k, density, n, dtype, l2):
    sound(select(random_matrix(m, k, density), n, dtype, l2=l2))


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "lil", "dok", "bsr"])
def test_the_format_of_the_matrix_does_not_matter(layout):
    a = random_matrix(200, 200, 0.05)
    assert select(a.asformat(layout), 64).choices == select(a, 64).choices


def test_features_give_the_same_advice_as_the_matrix_except_for_special_formats():
    a = random_matrix()
    whole, part = select(a, 128, "float32"), select(features(a), 128, "float32")
    assert {choice.kernel for choice in part.choices} <= {choice.kernel for choice in whole.choices}
    assert part.kernel == whole.kernel and part.choices[0] == whole.choices[0]


def test_stored_zeros_and_duplicates_do_not_count():
    a = random_matrix(300, 300, 0.05).tocoo()
    rows, columns = (np.concatenate([one, one[:50], [0]]) for one in a.coords)
    values = np.concatenate([a.data, a.data[:50], [0.0]])
    assert select(sparse.coo_array((values, (rows, columns)), shape=a.shape), 32).choices == select(a, 32).choices


def test_a_kernel_for_2_to_4_is_a_candidate_only_on_a_2_to_4_matrix():
    dense = np.random.default_rng(1).random((512, 512)) + 0.5
    pattern = np.tile([1, 0, 1, 0], (512, 128))
    formats = [
        {choice.format for choice in select(sparse.csr_array(a), 512, "bfloat16").choices}
        for a in (dense * pattern, dense)
    ]
    assert "sparse24" in formats[0] and "sparse24" not in formats[1]
    assert "sparse24" not in {
        choice.format for choice in select(features(sparse.csr_array(dense * pattern)), 512, "bfloat16").choices
    }


def test_a_width_that_a_kernel_does_not_take_leaves_it_out():
    kernels = [{choice.kernel for choice in select(random_matrix(), n, "float16").choices} for n in (128, 127)]
    assert "mma_bt" in kernels[0] and "mma_bt" not in kernels[1] and kernels[1]


def test_more_of_the_same_takes_longer():
    a = random_matrix(8192, 8192, 0.004)
    times = [select(a, n, "tf32").choices[0].time_ms for n in (32, 128, 512, 2048)]
    assert times == sorted(times)


def test_widths_outside_the_measured_ones_are_noted():
    assert "was measured with N from" in select(random_matrix(), 100_000).notes[0]
    assert not select(random_matrix(), 128).notes


def test_a_state_of_l2_that_was_not_measured_is_noted():
    kernels = document.load(MODEL).kernels
    seen = set()
    for dtype in PRECISIONS:
        for l2 in ("cold", "warm"):
            found = select(random_matrix(), 128, dtype, l2=l2)
            measured = kernels[found.kernel].l2
            noted = any(f"{found.kernel} was measured with {measured[0]} L2 only" in note for note in found.notes)
            assert noted == (l2 not in measured)
            seen.add(noted)
    assert seen == {True, False}


def test_sizes_beyond_the_measured_ones_are_noted():
    large = features(random_matrix()) | {"m": 10**8}
    assert "was measured on at most" in select(large, 128).notes[0]


def test_a_kernel_whose_grid_is_limited_is_left_out_of_larger_sizes():
    known = features(random_matrix())
    sums = ("m", "k", "nnz", "nonempty_columns", "empty_rows", "tiles_16x16", "tiles_16x32")

    def kernels(factor):
        scaled = known | {name: round(known[name] * factor) for name in sums}
        return {choice.kernel for choice in sound(select(scaled, 128, "float16", device="h200")).choices}

    small, large = kernels(1), kernels(2_000_000 / 4096)
    assert {"mma_bt", "mma_obt_large", "wgmma_obt"} <= small
    assert "wgmma_obt" in large and not {"mma_t", "mma_bt", "mma_cbt", "mma_obt", "mma_obt_large"} & large
    assert "wgmma_obt" not in kernels(4_200_000 / 4096)


def test_if_no_grid_is_large_enough_the_limits_are_told():
    known = document.load(MODEL, "h200")
    limited = {name: dataclasses.replace(kernel, limits={"m": 1_000}) for name, kernel in known.kernels.items()}
    asked, case = conditions(8, "float32", "cold", None, None), features(random_matrix()) | {"n": 8}
    with pytest.raises(SelectionError, match="takes m=4096, k=4096, n=8: grids are limited to m up to 1,000"):
        advice._able(dataclasses.replace(known, kernels=limited), asked, case)


def test_layout_and_sums_leave_kernels_out():
    found = sound(select(random_matrix(), 128, "float16", layout="row_major", sums="fp32"))
    assert {choice.dtype["accumulator"] for choice in found.choices} == {"float32"}
    assert {side for choice in found.choices for side in choice.layout.values()} == {"row_major"}
    assert len(found.choices) < len(select(random_matrix(), 128, "float16").choices)


@pytest.mark.parametrize("layout", ["row_major", None])
def test_a_kernel_with_memory_of_its_own_does_not_suit_operands_that_are_there(tmp_path, layout):
    content = json.loads(MODEL.read_text())
    first = select(random_matrix(), 128, device="h200", layout=layout).kernel
    content["devices"]["h200"]["kernels"][first]["own_memory"] = True
    (tmp_path / "model.json").write_text(json.dumps(content))
    found = sound(select(random_matrix(), 128, device="h200", layout=layout, model=tmp_path / "model.json"))
    assert any(choice.kernel == first for choice in found.choices) == (layout is None)


def test_names_of_dtypes():
    a = random_matrix(100, 100, 0.1)
    for given_, meant in (
        (np.float16, "float16"),
        ("fp16", "float16"),
        (np.dtype("float64"), "float64"),
        (np.float32, "float32"),
    ):
        assert select(a, 8, given_).precision == meant


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n is 0; it is the number of columns of B"),
        ({"n": 1.5}, "n is 1.5"),
        ({"n": 10**12}, "a whole number from 1 to 2147483647"),
        ({"n": True}, "n is True"),
        ({"dtype": "int8"}, "the precision classes are float16, bfloat16, tf32, float32, float64"),
        ({"dtype": 5}, "dtype is 5"),
        (
            {"device": "nosuch"},
            "nothing is known of the device 'nosuch'; the devices are a100, .*; for another one, name",
        ),
        ({"l2": "hot"}, "say cold .* or warm"),
        ({"layout": "diagonal"}, "B and C are row_major or column_major"),
        ({"sums": "float16"}, "no kernel in float32 has B and C in any layout and float16 sums"),
        ({"a": np.eye(3)}, "A is ndarray; give a two-dimensional scipy.sparse matrix"),
        ({"a": sparse.csr_array(np.eye(3) * 1j)}, "A is complex"),
        ({"a": {"m": 3}}, "the features lack 'k'"),
        ({"model": "no/such.json"}, "no/such.json: not readable"),
    ],
)
def test_bad_questions_get_one_clear_error(arguments, message):
    with pytest.raises(SelectionError, match=message):
        select(**{"a": random_matrix(50, 50, 0.1), "n": 8} | arguments)


def test_a_matrix_without_rows_is_refused():
    with pytest.raises(MatrixError, match="at least one row and one column"):
        select(sparse.csr_array((0, 5)), 8)


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "{}", '{"devices": {}}', '{"devices": {"h200": {}}}', '{"devices": 3}', "\xff"),
        '{"devices": {"h200": {"cases": [], "kernels": {}}}, "datasheets": 3}',
    ],
)
def test_a_file_that_is_no_model_is_named(tmp_path, content):
    path = tmp_path / "model.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(SelectionError, match=r"model.json: no model of the selector, or a damaged one; `spmm-roofline"):
        select(random_matrix(50, 50, 0.1), 8, model=path)


# --- the device -------------------------------------------------------------------------------------------------------


def best_known():
    """The device of which the stored model knows the most cases."""
    devices = json.loads(MODEL.read_text())["devices"]
    return max(devices, key=lambda name: len(devices[name]["cases"]))


@pytest.fixture
def two_devices(tmp_path):
    """A model that knows fewer cases of a second device."""
    document = json.loads(MODEL.read_text())
    best = document["devices"][best_known()]
    document["devices"]["another"] = best.copy()
    best["cases"] = [*best["cases"], [0, 8, "warm"]]
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    return path


def test_a_model_that_was_trained_anew_is_read_anew(two_devices, monkeypatch):
    assert "another" in document.measured_devices(two_devices)
    content = json.loads(two_devices.read_text())
    content["devices"]["third"] = content["devices"].pop("another")
    two_devices.write_text(json.dumps(content))
    monkeypatch.chdir(two_devices.parent)
    for path in (two_devices, Path("model.json")):
        assert "third" in document.measured_devices(path) and "another" not in document.measured_devices(path)
    assert document.load(two_devices, "third").device == "third"
    two_devices.unlink()
    with pytest.raises(SelectionError, match=r"model\.json: not readable: No such file"):
        document.load(two_devices)


def test_without_a_gpu_the_device_that_the_model_knows_best_is_taken_and_that_is_said(two_devices):
    found = select(random_matrix(50, 50, 0.1), 8, model=two_devices)
    assert found.device == best_known() and found.extrapolated_from is None
    assert found.device_reason == f"there is no GPU here, so this is for {best_known()}; --device names another one"
    named = select(random_matrix(50, 50, 0.1), 8, model=two_devices, device="another")
    assert named.device == "another" and named.device_reason == ""


@pytest.mark.parametrize(
    ("product", "device", "extrapolated_from", "said"),
    [
        ("NVIDIA H200", "h200", None, "this machine has one (NVIDIA H200)"),
        ("NVIDIA GeForce RTX 4090", "rtx4090", best_known(), "this machine has one (NVIDIA GeForce RTX 4090)"),
        (
            "NVIDIA X1",
            best_known(),
            None,
            f"nothing is known of the NVIDIA X1 of this machine, so this is for {best_known()}",
        ),
    ],
)
def test_the_gpu_of_this_machine_is_taken(monkeypatch, product, device, extrapolated_from, said):
    monkeypatch.setattr("spmm_roofline.measure.device.visible", lambda: [Gpu("GPU-0", product, (9, 0), "1")])
    found = sound(select(random_matrix(), 128))
    assert (found.device, found.extrapolated_from, found.device_reason) == (device, extrapolated_from, said)


def test_a_device_that_was_not_measured_is_extrapolated_and_that_is_said():
    a = random_matrix(20_000, 20_000, 0.001)
    measured, other = select(a, 512), sound(select(a, 512, device="rtx4090"))
    assert other.extrapolated_from == best_known() and f"extrapolated from {best_known()}" in other.notes[0]
    # It has a fifth of the bandwidth, but the larger L2.
    assert other.choices[0].time_ms > 1.1 * measured.choices[0].time_ms
    assert "±" not in other.reason and "±" in measured.reason
    assert f"extrapolated from {best_known()}" in printed(other, 1, 1, 1).splitlines()[0]


@pytest.fixture
def without_a_kernel(tmp_path):
    """A model whose second device lacks a kernel and knows another one with N = 1 alone."""
    content = json.loads(MODEL.read_text())
    kernels, cases = (content["devices"]["h200"][name] for name in ("kernels", "cases"))
    del kernels["staged_f16"]
    one, entry = [number for number, case in enumerate(cases) if case[1] == 1][:3], kernels["window_f16"]
    kernels["window_f16"] = entry | {"cases": one, "residuals": [0.0] * len(one)}
    path = tmp_path / "model.json"
    path.write_text(json.dumps(content))
    return path


def test_a_kernel_that_was_not_measured_near_n_is_extrapolated_from_another_device(without_a_kernel):
    a = random_matrix(20_000, 20_000, 0.001)
    full, found = (select(a, 128, "float16", "h200", model=model) for model in (MODEL, without_a_kernel))
    of_full, of_found = ({choice.kernel: choice for choice in advice.choices} for advice in (full, found))
    assert found.extrapolated_from is None and of_full.keys() == of_found.keys()
    changed = {"staged_f16", "window_f16"}
    for name in changed:
        assert of_full[name].extrapolated_from is None and of_found[name].extrapolated_from == "h100"
        assert of_found[name].time_ms == pytest.approx(of_full[name].time_ms, rel=0.5)
    assert all(choice == of_full[name] for name, choice in of_found.items() if name not in changed)
    rows = {line.partition(" ")[0]: line for line in printed(found, *a.shape, a.nnz).splitlines()}
    assert all(("±" in rows[name]) != bool(choice.extrapolated_from) for name, choice in of_found.items())
    near = select(a, 4, "float16", "h200", model=without_a_kernel)
    own = next(choice for choice in near.choices if choice.kernel == "window_f16")
    assert own.extrapolated_from is None, "N = 1 is near"


@pytest.mark.parametrize(
    ("widths", "n", "reaches"),
    [((1,), 4, True), ((1,), 5, False), ((32, 512), 8, True), ((32, 512), 7, False), ((8, 16384), 128, True)],
)
def test_a_kernel_is_not_known_far_from_its_widths(widths, n, reaches):
    kernel = document.load(MODEL, "h200").kernels["window_f16"]
    assert dataclasses.replace(kernel, widths=widths).reaches(n) is reaches


def test_advice_of_an_extrapolated_kernel_says_so(without_a_kernel):
    model = document.load(without_a_kernel, "h200").for_width(128)
    case = {"n": 128, "warm": False, "m": 1, "nnz": 1}
    (first, *_) = notes(case, model.kernels["staged_f16"], model)
    assert first == "staged_f16 was not measured on h200 with N near 128: its time is extrapolated from h100"


def test_a_device_without_the_architecture_or_the_unit_lacks_the_kernels_that_need_it():
    model, content = document.load(MODEL, "rtx4090"), json.loads(MODEL.read_text())
    full = document.load(MODEL, best_known()).kernels
    lost = {full[name].min_arch for name in full.keys() - model.kernels.keys()}
    assert "sm_90a" in lost and lost <= {"sm_90", "sm_90a", None, "sm_80"}
    assert all(not (kernel.min_arch or "").startswith("sm_90") for kernel in model.kernels.values())
    assert model.rates.l2_bytes == content["datasheets"]["rtx4090"]["l2_bytes"]
    kernel = next(kernel for kernel in model.kernels.values() if kernel.unit == "float32_cuda")
    ratio = kernel.work.compute_limit_gflops / full[kernel.name].work.compute_limit_gflops
    assert ratio == pytest.approx(82600 / 66900)


def test_a_datasheet_may_be_a_file(tmp_path):
    sheet = yaml.safe_load(Path("config/devices/h200.yaml").read_text()) | {"name": "h300", "memory_gb_per_s": 9600}
    path = tmp_path / "h300.yaml"
    path.write_text(yaml.safe_dump(sheet))
    found = sound(select(random_matrix(), 512, device=str(path)))
    assert (found.device, found.extrapolated_from) == ("h300", "h200"), "the nearest one"
    assert found.choices[0].time_ms < select(random_matrix(), 512).choices[0].time_ms
    with pytest.raises(SelectionError, match=r"no\.yaml: not readable"):
        select(random_matrix(), 8, device="no.yaml")
    path.write_text("name: h300")
    with pytest.raises(SelectionError, match="is a required property"):
        select(random_matrix(), 8, device=str(path))


def test_a_device_is_its_own_extrapolation():
    model, sheet = document.load(MODEL, "h200"), json.loads(MODEL.read_text())["datasheets"]["h200"]
    again = extrapolated(model, sheet, sheet)
    case = dict(features(random_matrix())) | {"n": 128, "warm": False}
    for name, kernel in again.kernels.items():
        assert again.predict(kernel, case)[0] == pytest.approx(model.predict(model.kernels[name], case)[0])
    emulated = {name for name, kernel in model.kernels.items() if obstacle("sm_90a", None, kernel.features)}
    assert again.kernels.keys() == model.kernels.keys() - emulated and again.extrapolated_from == "h200"


# --- preprocessing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lacking", ["of", "to"])
def test_a_clock_that_one_datasheet_lacks_counts_as_equal(lacking):
    model = document.load(MODEL, "h200")
    sheets = {name: json.loads(MODEL.read_text())["datasheets"]["h200"] for name in ("of", "to")}
    same = extrapolated(model, **sheets)
    del sheets[lacking]["boost_mhz"]
    other = extrapolated(model, **sheets)
    assert other.rates == same.rates
    for name, kernel in same.kernels.items():
        assert np.array_equal(other.kernels[name].coefficients, kernel.coefficients)


def test_what_multiplies_one_column_after_the_other_is_advised_for_one_column_only():
    wide, one = ({choice.kernel for choice in select(random_matrix(), n, "float64").choices} for n in (128, 1))
    assert any("spmv" in kernel for kernel in one) and not any("spmv" in kernel for kernel in wide)
    assert wide < one


@pytest.mark.parametrize("dtype", ["float16", "tf32", "float32", "float64"])
def test_each_choice_says_when_it_pays_back(dtype):
    found = select(random_matrix(), 128, dtype)
    known = document.load(MODEL, best_known()).kernels
    assert known[found.baseline].baseline
    (reference,) = [
        c
        for c in select(random_matrix(), 128, "float32" if dtype == "tf32" else dtype).choices
        if c.kernel == found.baseline
    ]
    for choice in found.choices:
        assert choice.preprocess_ms > 0
        calls = choice.pays_back_calls
        if choice.kernel == found.baseline:
            assert calls is None
        elif calls is None:
            assert choice.time_ms >= reference.time_ms
        else:
            spent = [one.preprocess_ms + calls * one.time_ms for one in (choice, reference)]
            assert spent[0] <= spent[1] * (1 + 1e-9)
            assert calls == 0 or choice.preprocess_ms + (calls - 1) * choice.time_ms > (
                reference.preprocess_ms + (calls - 1) * reference.time_ms
            )


@pytest.mark.parametrize(
    ("times", "calls"),
    [((1, 10, 2, 0), 10), ((1, 10.5, 2, 0), 11), ((1, 0, 2, 5), 0), ((2, 0, 2, 0), 0), ((2, 0, 1, 9), None)],
)
def test_calls_to_pay_back(times, calls):
    assert calls_to_pay_back(*times) == calls


def test_time_before_the_first_product_is_learnt_from_its_terms():
    case = {"nnz": np.array([1e3, 1e5, 1e6, 1e7]), "m": np.array([1e3, 1e3, 1e5, 1e4])}
    case |= {name: np.zeros(4) for name in ("k", "tiles_16x16", "tiles_16x32", "alpha_fraction")}
    work = Work("float32", 0, 1.0, np.array([8.0, 4.0, 0, 0, 0, 0]), np.zeros(6))
    measured_ms = 0.2 + 3e-6 * case["nnz"]
    taught = learnt(case, work, measured_ms)
    assert taught.predict(case, work) == pytest.approx(measured_ms, rel=0.1) and taught.factor < 1.1
    assert learnt(case, work, np.full(4, np.nan)) is None


def test_the_compilation_is_told_apart(tmp_path):
    content = json.loads(MODEL.read_text())
    for kernel in content["devices"][best_known()]["kernels"].values():
        kernel["compile_ms"] = 321.0
    path = tmp_path / "model.json"
    path.write_text(json.dumps(content))
    found = select(random_matrix(), 128, model=path)
    assert found.choices[0].compile_ms == 321.0
    assert f"compilation, once, where the package brings no machine code: {found.kernel} 321 ms" in printed(
        found, 1, 1, 1
    )


def test_without_the_stored_model_the_error_says_where_it_was_looked_for(monkeypatch, tmp_path):
    monkeypatch.setattr(advice, "MODEL", tmp_path / "selector.json")
    with pytest.raises(SelectionError, match=r"selector.json: not readable: .* `spmm-roofline train` makes one"):
        select(random_matrix(50, 50, 0.1), 8)


#: What the pipeline needs and a program that asks for a kernel does not.
PIPELINE = (
    *("pandas", "snakemake", "matplotlib", "seaborn", "requests", "pooch", "ssgetpy", "jinja2", "tqdm", "filelock"),
    *("nvtx", "pygments", "itables", "cupy", "cuda"),
)


def without_the_pipeline(code, *arguments):
    """Run ``code`` in a process in which nothing of :data:`PIPELINE` can be imported."""
    block = f"import sys; sys.modules.update(dict.fromkeys({PIPELINE}))\n"
    return subprocess.run([sys.executable, "-c", block + code, *map(str, arguments)], capture_output=True, text=True)


def test_select_needs_nothing_of_the_pipeline():
    done = without_the_pipeline(
        "import scipy.sparse as s, spmm_roofline\n"
        "advice = spmm_roofline.select(s.random_array((512, 512), density=0.01), 128, 'bfloat16')\n"
        "print(advice.reason)"
    )
    assert done.returncode == 0, done.stderr
    assert "predicted" in done.stdout


def test_the_command_advises_without_the_pipeline(tmp_path):
    from scipy.io import mmwrite

    mmwrite(tmp_path / "my.mtx", random_matrix(500, 400, 0.02).tocoo())
    done = without_the_pipeline(
        "from spmm_roofline.cli import main; sys.exit(main(['advise', sys.argv[1], '--n', '128']))", tmp_path / "my.mtx"
    )
    assert done.returncode == 0, done.stderr
    assert "predicted" in done.stdout


def test_the_package_offers_select_and_stays_cheap_to_import():
    assert spmm_roofline.select is select
    with pytest.raises(AttributeError, match="no attribute 'elect'"):
        spmm_roofline.elect  # noqa: B018
    code = "import sys, spmm_roofline, spmm_roofline.cli; assert not {'numpy', 'scipy', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
