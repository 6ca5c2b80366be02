"""Blocks of transformers: ratios to their baselines, and the bound of masked attention by hand."""

import pytest

from spmm_roofline import contracts
from spmm_roofline.analysis import blocks as module
from tests.analysis import synthetic

PEAKS = {"h200": {("float16_tensor", "mma"): 500_000.0, ("float16_tensor", "wgmma"): 800_000.0}}
DATASHEET = {"h200": {"bfloat16_tensor": 250_000.0}}


def table(rows):
    return module.blocks(contracts.frame(rows, "measure_blocks"), {"h200": 4000.0}, PEAKS, DATASHEET)


def test_the_bound_by_hand():
    # Q, K, V and O: 4·8·1024·64 values of 2 bytes are 4 MiB; the mask as CSR: 4·10,000 + 4·1025 bytes.
    row = {"batch": 1, "heads": 8, "head_width": 64, "sequence": 1024, "dtype": "float16", "nnz": 10_000}
    moved = 4 * 8 * 1024 * 64 * 2 + 44_100
    assert module.masked_bound(row, 4000.0, 500_000.0) == (moved / 4000e6, "memory")
    # 4·8·64 flops for each of 500,000 pairs; at this density one bit a pair is smaller than CSR.
    row |= {"nnz": 500_000}
    assert module.mask_bytes(500_000, 1024) == 1024 * 1024 / 8
    assert module.masked_bound(row, 4000.0, 500_000.0) == (4 * 8 * 64 * 500_000 / 500_000e6, "compute")
    assert module.masked_bound(row | {"batch": 16}, 4000.0, None)[1] == "memory"


def test_shares_and_padding_of_masked_attention():
    rows = table(synthetic.block_rows()).set_index(["implementation", "pattern", "sequence", "dtype"])
    own = rows.loc[("ours", "random 0.1", 4096, "float16")]
    nnz = 4096 * 4096 // 10
    # 4·8·64·nnz flops at the ceiling of mma, not of wgmma.
    assert own["bound"] == "compute" and own["bound_ms"] == pytest.approx(4 * 8 * 64 * nnz / 500_000e6)
    assert own["bound_fraction"] == pytest.approx(own["bound_ms"] / own["time_ms"])
    assert own["padding"] == pytest.approx(2.0, rel=1e-3)
    assert rows.loc[("flash", "random 0.1", 4096, "float16"), "padding"] == pytest.approx(10, rel=1e-3)
    # Nothing was measured in BF16: the datasheet stands for it.
    other = rows.loc[("ours", "random 0.1", 4096, "bfloat16")]
    assert other["bound_ms"] == pytest.approx(2 * own["bound_ms"])


def test_ratios_are_to_the_implementation_with_the_same_result():
    rows = table(synthetic.block_rows())
    masked = rows[(rows["block"] == "masked") & (rows["status"] == "ok")]
    assert (masked.loc[masked["implementation"] == "sdpa_mask", "over_baseline"] == 1).all()
    pruned = rows[(rows["block"] == "pruned") & (rows["status"] == "ok")]
    assert (pruned.loc[pruned["implementation"] == "dense", "over_baseline"] == 1).all()
    ours = pruned[(pruned["implementation"] == "ours") & (pruned["dtype"] == "tf32")]
    assert ours["sparsity_fraction"].nunique() == 2 and ours["over_baseline"].notna().all(), "one dense row serves all"
    # Kernels in FP32 stand beside the dense layer in TF32.
    thesis = pruned[pruned["implementation"] == "thesis"]
    assert set(thesis["precision_class"]) == {"tf32"} and thesis["over_baseline"].notna().all()
    assert rows.loc[rows["block"] == "pruned", "bound_ms"].isna().all()


def test_a_failed_row_has_neither_time_nor_ratio():
    failed = table(synthetic.block_rows()).query("status != 'ok'")
    assert list(failed["implementation"]) == ["sdpa_mask"]
    assert failed[["time_ms", "over_baseline", "bound_ms"]].isna().all(axis=None)


def test_without_rows_the_table_is_empty():
    assert table([]).empty


def test_rows_come_from_here_and_from_records(tmp_path):
    rows = synthetic.block_rows()
    recorded = synthetic.write_recorded(tmp_path / "h200")
    contracts.write(contracts.frame(rows, "measure_blocks"), recorded / "blocks.csv", "measure_blocks")
    local = [row | {"time_ms": 9.0} for row in rows if row["status"] == "ok"][:1]
    contracts.write(contracts.frame(local, "measure_blocks"), tmp_path / "blocks.csv", "measure_blocks")
    out = synthetic.analyse(tmp_path / "out", recorded=[recorded], measured_blocks=[tmp_path / "blocks.csv"])
    found = contracts.read(out / "blocks.csv", "analysis_blocks")
    assert len(found) == len(rows) and (found["time_ms"] == 9.0).sum() == 1
