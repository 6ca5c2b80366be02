"""Counters of Nsight Compute as quantities that explain a time: traffic over what is compulsory, hits, waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .. import contracts
from .cases import stale
from .registry import table, value

if TYPE_CHECKING:
    import pandas as pd

KEY = ["device", "suite", "kernel", "matrix", "n", "l2"]

TIME = "gpu__time_duration.sum"
DRAM, FIRST = "dram__bytes.sum", "l1tex__t_bytes.sum"
#: Sectors that multiprocessors ask of L2 or write to it. ``lts__t_bytes`` counts what the halves of L2 hand to each
#: other too, for which no ceiling is measured.
CACHE = "lts__t_sectors_srcunit_tex.sum"
SECTORS, IDEAL_SECTORS = "memory_l2_theoretical_sectors_global", "memory_l2_theoretical_sectors_global_ideal"
INSTRUCTIONS = "smsp__inst_executed.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
#: Loads from shared memory; ldmatrix is counted apart from the others.
SHARED_LOADS = ("smsp__sass_inst_executed_op_shared_ld.sum", "smsp__inst_executed_op_ldsm.sum")
#: Both kinds of tensor-core instructions; a chip that has none of a kind does not count it.
TENSOR = ("sm__inst_executed_pipe_tensor_op_hmma.sum", "sm__inst_executed_pipe_tensor_op_gmma.sum")
#: Sectors of local memory, 32 bytes each: what was spilled, and what a thread indexes at run time.
LOCAL = ("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum")
SECTOR_BYTES = 32
#: Operations of the tensor cores by dtype, as far as a chip counts them; the ending says whether A is 2:4.
OPERATIONS, DENSE, SPARSE24 = "sm__ops_path_tensor_", "_sparsity_off.sum", "_sparsity_on.sum"
#: Column → counter in per cent.
FRACTIONS = {
    "l2_hit_fraction": "lts__t_sector_hit_rate.pct",
    "l1_hit_fraction": "l1tex__t_sector_hit_rate.pct",
    "l1_busy_fraction": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "occupancy_fraction": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "occupancy_limit_fraction": "sm__maximum_warps_per_active_cycle_pct",
    "issue_fraction": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "tensor_pipe_fraction": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
}
#: Column → counter as it is.
PLAIN = {
    "waiting_warps": "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "registers": "launch__registers_per_thread",
    "threads_per_instruction": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "working_threads_per_instruction": "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
}
#: Column → counter that adds up over the multiplications of a call.
SUMS = {
    "sectors": SECTORS,
    "instructions": INSTRUCTIONS,
    "ctas": "launch__grid_size",
    "divergent_branches": "smsp__sass_branch_targets_threads_divergent.sum",
    "global_loads": "smsp__sass_inst_executed_op_global_ld.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
}
#: Warps in one state per instruction issued; the name of the state stands between.
STATE_PREFIX, STATE_SUFFIX = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"
#: States that must have been counted before they are added up; older profiles have one alone.
LEAST_STATES = 5


@value()
def profiled(profile_rows: pd.DataFrame, compilations: pd.DataFrame, fingerprints: Mapping[str, str]) -> pd.DataFrame:
    """Rows of the table ``profile`` of kernels as they are now; the arguments are those of :func:`.cases.stale`."""
    return profile_rows[~stale(profile_rows, fingerprints, compilations)]


@value()
def other_code(profile_rows: pd.DataFrame, compilations: pd.DataFrame, fingerprints: Mapping[str, str]) -> pd.DataFrame:
    """Rows of the table ``profile`` of kernels that have changed since, which explain no present time."""
    return profile_rows[stale(profile_rows, fingerprints, compilations)]


@table()
def counters(profiled: pd.DataFrame, cases: pd.DataFrame) -> pd.DataFrame:
    """Table ``analysis_counters`` from the tables ``profile`` and ``analysis_cases``, a row a profiled case.

    Sizes come from the case's measured row; a case without one is left out. Sums are per multiplication, as times are:
    those of a call are divided by its ``steps``. Hit rates above 1, an artefact of several profiling passes, are left
    out.
    """
    import pandas as pd

    ok = profiled[profiled["status"] == "ok"]
    if ok.empty:
        return contracts.frame([], "analysis_counters")
    wide = ok.pivot(index=KEY, columns="metric", values="value").reset_index()
    sizes = cases[[*KEY, "study", "precision", "nnz", "compulsory_bytes", "steps"]].drop_duplicates(KEY)
    wide = wide.merge(sizes, on=KEY, how="inner")

    def counter(name: str) -> pd.Series:
        return wide[name].astype(float) if name in wide else pd.Series(float("nan"), index=wide.index)

    def total(name: str) -> pd.Series:
        return counter(name) / wide["steps"].astype(float)

    seconds = total(TIME) * 1e-9
    compulsory = wide["compulsory_bytes"].astype(float)
    flop = 2.0 * wide["nnz"].astype(float) * wide["n"].astype(float)
    instructions = total(INSTRUCTIONS)
    tensor = sum(total(name).fillna(0.0) for name in TENSOR)
    by_pattern = [
        wide[[name for name in wide if name.startswith(OPERATIONS) and name.endswith(ending)]].astype(float).sum(axis=1)
        for ending in (DENSE, SPARSE24)
    ]
    states = wide[[name for name in wide if name.startswith(STATE_PREFIX) and name.endswith(STATE_SUFFIX)]].astype(
        float
    )
    dram, cache = total(DRAM), SECTOR_BYTES * total(CACHE)
    table = wide.assign(
        profiled_ms=seconds * 1e3,
        dram_bytes=dram,
        cache_bytes=cache,
        first_bytes=total(FIRST),
        as_timed=wide["l2"] == "cold",
        dram_over_compulsory=_ratio(dram, compulsory),
        cache_over_compulsory=_ratio(cache, compulsory),
        dram_gb_per_s=_ratio(dram, seconds) * 1e-9,
        cache_gb_per_s=_ratio(cache, seconds) * 1e-9,
        dram_flop_per_byte=_ratio(flop, dram),
        cache_flop_per_byte=_ratio(flop, cache),
        excess_sectors_fraction=1 - _ratio(counter(IDEAL_SECTORS), counter(SECTORS)),
        conflicts_per_instruction=_ratio(total(CONFLICTS), instructions),
        local_bytes=SECTOR_BYTES * (total(LOCAL[0]) + total(LOCAL[1])),
        tensor_sparse24_fraction=_ratio(by_pattern[1], by_pattern[0] + by_pattern[1]),
        tensor_instructions_fraction=_ratio(tensor, instructions),
        instructions_per_nonzero=_ratio(instructions, flop / 64),
        shared_loads=total(SHARED_LOADS[0]) + total(SHARED_LOADS[1]),
        cycles_per_instruction=states.sum(axis=1).where(states.notna().sum(axis=1) >= LEAST_STATES),
        **{column: value.where(value <= 1) for column, name in FRACTIONS.items() for value in [counter(name) / 100]},
        **{column: counter(name) for column, name in PLAIN.items()},
        **{column: total(name) for column, name in SUMS.items()},
    )
    return contracts.check(
        table[list(contracts.table("analysis_counters").names)].sort_values(KEY), "analysis_counters"
    )


def _ratio(above: pd.Series, below: pd.Series) -> pd.Series:
    """Their quotient, missing where there is nothing to divide by."""
    return above / below.where(below > 0)
