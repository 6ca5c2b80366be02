"""Counters as ratios, by hand; what was not counted stays empty."""

import pytest

from spmm_roofline import contracts
from spmm_roofline.analysis.counters import counters, other_code
from spmm_roofline.analysis.counters import profiled as of_present_code
from tests.analysis import synthetic


@pytest.fixture(scope="module")
def cases():
    return synthetic.case_table()


def profiled(**changes):
    rows = [row | changes for row in synthetic.profile_rows() if row["kernel"] == "mma_bt"]
    return contracts.frame(rows, "profile")


def test_ratios_by_hand(cases):
    (row,) = counters(profiled(), cases).to_dict("records")
    own = synthetic.measure_row("mma_bt", "cfd1", 128)
    flop = 2 * own["nnz"] * 128
    assert (row["study"], row["precision"], row["profiled_ms"]) == ("smat", "float16", pytest.approx(0.05))
    assert row["dram_over_compulsory"] == pytest.approx(1e8 / own["compulsory_bytes"])
    assert row["cache_over_compulsory"] == pytest.approx(2e8 / own["compulsory_bytes"])
    assert (row["dram_gb_per_s"], row["cache_gb_per_s"]) == (pytest.approx(2000), pytest.approx(4000))
    assert row["dram_flop_per_byte"] == pytest.approx(flop / 1e8)
    assert row["cache_flop_per_byte"] == pytest.approx(flop / 2e8)
    assert row["l2_hit_fraction"] == pytest.approx(0.8)
    assert row["excess_sectors_fraction"] == pytest.approx(0.1)
    assert row["tensor_instructions_fraction"] == pytest.approx(0.1)
    assert row["conflicts_per_instruction"] == pytest.approx(0.5)
    assert (row["first_bytes"], row["local_bytes"], row["sectors"], row["instructions"]) == (6e8, 0, 1000, 4e6)
    assert (row["occupancy_limit_fraction"], row["issue_fraction"]) == (pytest.approx(0.5), pytest.approx(0.25))
    assert (row["tensor_pipe_fraction"], row["tensor_sparse24_fraction"]) == (pytest.approx(0.12), pytest.approx(0.25))
    assert (row["l1_busy_fraction"], row["threads_per_instruction"]) == (pytest.approx(0.35), 28)
    assert (row["global_loads"], row["shared_loads"], row["shared_load_wavefronts"]) == (4e5, 7e5, 5e6)
    assert (row["ctas"], row["divergent_branches"], row["working_threads_per_instruction"]) == (4096, 5280, 25)
    assert row["cycles_per_instruction"] == pytest.approx(11.4)
    assert row["instructions_per_nonzero"] == pytest.approx(4e6 / (own["nnz"] * 4))


def test_a_call_of_several_multiplications_counts_as_so_many(cases):
    once, thrice = (counters(profiled(), cases.assign(steps=steps)).to_dict("records")[0] for steps in (1, 3))
    for name in ("profiled_ms", "dram_bytes", "cache_bytes", "dram_over_compulsory", "instructions", "sectors"):
        assert thrice[name] == pytest.approx(once[name] / 3), name
    for name in ("dram_gb_per_s", "cache_gb_per_s", "l2_hit_fraction", "conflicts_per_instruction"):
        assert thrice[name] == pytest.approx(once[name]), name


def test_a_hit_rate_above_one_is_none(cases):
    table = profiled()
    table.loc[table["metric"] == "lts__t_sector_hit_rate.pct", "value"] = 125.0
    (row,) = counters(table, cases).to_dict("records")
    assert row["l2_hit_fraction"] != row["l2_hit_fraction"] and row["as_timed"]


def test_counters_of_a_kernel_that_changed_are_left_out():
    table, kernels = profiled(), contracts.frame([], "kernels")
    (kernel,), (now,) = set(table["kernel"]), set(table["kernel_sha256"])
    for fingerprint, kept, left_out in ((now, len(table), 0), ("changed", 0, len(table))):
        assert len(of_present_code(table, kernels, {kernel: fingerprint})) == kept
        assert len(other_code(table, kernels, {kernel: fingerprint})) == left_out


def test_what_was_not_counted_is_empty(cases):
    table = profiled()
    (row,) = counters(table[table["metric"] == "dram__bytes.sum"], cases).to_dict("records")
    assert row["dram_over_compulsory"] > 0
    for name in ("profiled_ms", "cache_gb_per_s", "l2_hit_fraction", "occupancy_fraction", "registers", "local_bytes"):
        assert row[name] != row[name], f"{name} was made up"
    for name in ("cycles_per_instruction", "shared_loads", "global_loads", "ctas", "divergent_branches"):
        assert row[name] != row[name], f"{name} was made up"


def test_spilled_registers_are_bytes(cases):
    table = profiled()
    stores = table["metric"] == "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"
    (row,) = counters(table.assign(value=table["value"].where(~stores, 10.0)), cases).to_dict("records")
    assert row["local_bytes"] == 320


def test_a_failed_profile_and_an_unmeasured_case_give_no_row(cases):
    assert counters(profiled(status="failed", value=None), cases).empty
    assert counters(profiled(matrix="nowhere"), cases).empty
    assert counters(contracts.frame([], "profile"), cases).empty
