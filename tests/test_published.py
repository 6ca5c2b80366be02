"""Numbers printed in the studies, as tidy CSV: only those legible in the text, and consistent with each other."""

from pathlib import Path

import pytest

from spmm_roofline import contracts
from spmm_roofline.analysis.paper_counters import QUANTITIES
from spmm_roofline.kernels import heads

PUBLISHED = sorted(Path("config/published").glob("*.csv"))
#: Codes that papers compare with and that are not kernels of this project.
BASELINES = {"cusparse", "cusparselt", "best_sc", "none"}


def numbers(name):
    return contracts.read(f"config/published/{name}.csv", "analysis_papers")


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_a_file_is_of_one_study_and_names_our_kernels(path):
    rows = numbers(path.stem)
    assert (rows.study == path.stem).all()
    assert rows.value.gt(0).all()
    strange = set(rows.kernel) - set(heads()) - BASELINES
    assert not strange, f"{path} names {sorted(strange)}, which is no kernel of ours"
    devices = {file.stem for file in Path("config/devices").glob("*.yaml")} | {"none"}
    assert set(rows.paper_device) <= devices
    units = {
        "time": {"ms"},
        "useful rate": {"GFLOP/s"},
        "matrices": {"matrices"},
        "throughput": {"TFLOP/s"},
        "ceiling": {"TFLOP/s"},
    } | {name: {counter.unit} for name, counter in QUANTITIES.items()}
    for quantity, of_quantity in rows.groupby("quantity"):
        assert set(of_quantity.unit) <= units.get(quantity.split(" of ")[0], {"1"}), quantity


def test_times_and_rates_of_the_attention_study_tell_the_same_number_of_non_zeros():
    # Tables 5.1 to 5.5 print both. Random and magnitude pruning leave the same number in every 512×512 layer.
    rows = numbers("attention")
    parts = rows.matrix.str.rsplit("-", n=1, expand=True)
    rows = rows.assign(sparsity=parts[1].astype(float))[parts[0].str.contains("random|magnitude")]
    case = ["source", "matrix", "sparsity", "n", "kernel"]
    pairs = rows.pivot_table(index=case, columns="quantity", values="value").dropna().reset_index()
    nnz = pairs["time"] * pairs["useful rate"] * 1e6 / (2 * pairs.n)
    off = (nnz / (512 * 512 * (1 - pairs.sparsity)) - 1).abs()
    assert len(pairs) == 156
    # Times are rounded to a microsecond, and a mean of ratios is not a ratio of means.
    assert (off < 0.0005 / pairs["time"] + 0.04).all()
