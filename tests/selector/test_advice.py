"""Advice for a matrix: select() on every kind of matrix, question and model, in a small environment too."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import spmm_roofline
from spmm_roofline.matrices.canonical import MatrixError
from spmm_roofline.matrices.features import features
from spmm_roofline.paths import MODEL
from spmm_roofline.selector import advice
from spmm_roofline.selector.advice import select
from spmm_roofline.selector.question import DTYPES, SelectionError

PRECISIONS = tuple(dict.fromkeys(DTYPES.values()))


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


def test_sizes_beyond_the_measured_ones_are_noted():
    large = features(random_matrix()) | {"m": 10**8}
    assert "was measured on at most" in select(large, 128).notes[0]


def test_layout_and_sums_leave_kernels_out():
    found = sound(select(random_matrix(), 128, "float16", layout="row_major", sums="fp32"))
    assert {choice.dtype["accumulator"] for choice in found.choices} == {"float32"}
    assert {side for choice in found.choices for side in choice.layout.values()} == {"row_major"}
    assert len(found.choices) < len(select(random_matrix(), 128, "float16").choices)


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
        ({"n": True}, "n is True"),
        ({"dtype": "int8"}, "the precision classes are float16, bfloat16, tf32, float32, float64"),
        ({"dtype": 5}, "dtype is 5"),
        ({"device": "nosuch"}, "nothing is known of the device 'nosuch', only of h200: measure and record it"),
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


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"devices": {"h200": {}}}', '{"devices": 3}'])
def test_a_file_that_is_no_model_is_named(tmp_path, content):
    path = tmp_path / "model.json"
    path.write_text(content)
    with pytest.raises(SelectionError, match=r"model.json: no model of the selector"):
        select(random_matrix(50, 50, 0.1), 8, model=path)


def test_a_model_of_several_devices_asks_which(tmp_path):
    document = json.loads(MODEL.read_text())
    document["devices"]["another"] = document["devices"]["h200"]
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    with pytest.raises(SelectionError, match="several devices, another, h200"):
        select(random_matrix(50, 50, 0.1), 8, model=path)
    assert select(random_matrix(50, 50, 0.1), 8, model=path, device="another").device == "another"


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
