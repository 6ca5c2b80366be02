"""A small world that looks like a real one: two suites, ten kernels, six matrices, three widths on one device.

Times follow a roofline with a launch overhead and a factor per kernel, so that wins, losses, both precisions and
every status occur; nothing is random.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from spmm_roofline import contracts

ROOT = Path(__file__).resolve().parents[2]
DEVICE = "h200"
WIDTHS = (32, 128, 512)


def _head(name, study, dtype_a, accumulator, features, after=None, vendor=None):
    dtype = {"a": dtype_a, "b": dtype_a, "accumulator": accumulator, "c": dtype_a.replace("tf32", "float32")}
    return {
        "name": name,
        "study": study,
        "source": "an invented study, section 1",
        "idea": f"the idea of {name}",
        "after": after,
        "family": "blocks" if name in ("mma_t", "mma_bt") else None,
        "vendor": vendor,
        "unit": "cuda" if vendor else None,
        "baseline": "cusparse_best" if vendor == "cusparse" else None,
        "steps": 1,
        "format": "csr" if vendor else "hrpb" if study == "cutespmm" else "bcsr_16x16",
        "dtype": dtype,
        "layout": {"b": "row_major", "c": "row_major"},
        "requires": {} if vendor else {"n": 8},
        "tile": {},
        "min_arch": None if vendor else "sm_80",
        "features": features,
        "deviations": [] if vendor else ["values are real numbers, not ones"],
        "path": f"kernels/{study}/{name}.cu",
        "launches": [],
    }


HEADS = {
    head["name"]: head
    for head in (
        _head("cusparse_csr_alg2_f32", "cusparse", "float32", "float32", [], vendor="cusparse"),
        _head("cusparse_csr_alg3_f32", "cusparse", "float32", "float32", [], vendor="cusparse"),
        _head("cusparse_csr_alg2_f16", "cusparse", "float16", "float32", [], vendor="cusparse"),
        _head("cusparse_csr_alg2_bf16", "cusparse", "bfloat16", "float32", [], vendor="cusparse"),
        _head("mma_t", "smat", "float16", "float16", ["ldmatrix", "mma"]),
        _head("mma_bt", "smat", "float16", "float16", ["ldmatrix", "mma"], after="mma_t"),
        _head("mma_bt_f32", "smat", "float16", "float32", ["ldmatrix", "mma"], after="mma_bt"),
        _head("mma_obts", "sptc", "float16", "float16", ["mma", "mma_sp"], after="mma_bt"),
        _head("bricks", "cutespmm", "tf32", "float32", ["cp_async", "mma"]),
        _head("row_split", "scalar", "float32", "float32", []),
    )
}

#: kernel → (share of the copy bandwidth reached, how it suffers from empty slots of 16x16 tiles).
SPEED = {
    "cusparse_csr_alg2_f32": (0.55, 0.0),
    "cusparse_csr_alg3_f32": (0.50, 0.0),
    "cusparse_csr_alg2_f16": (0.42, 0.0),
    "cusparse_csr_alg2_bf16": (0.40, 0.0),
    "mma_t": (0.20, 1.0),
    "mma_bt": (0.75, 1.0),
    "mma_bt_f32": (0.70, 1.0),
    "mma_obts": (0.95, 1.0),
    "bricks": (0.80, 0.3),
    "row_split": (0.68, 0.0),
}

#: matrix → (suite, kind, m, k, nnz, fill of 16x16 tiles).
MATRICES = {
    "xdys_4d4s": ("quick", "tiles", 4096, 4096, 1_572_864, 0.75),
    "wilson_8x8x8x8": ("quick", "lattice", 49_152, 49_152, 1_916_928, 0.22),
    "bcsstk32": ("real-sample", "structural", 44_609, 44_609, 2_014_701, 0.31),
    "cfd1": ("real-sample", "mesh", 70_656, 70_656, 1_828_364, 0.12),
    "dblp-2010": ("real-sample", "graph", 326_186, 326_186, 1_615_400, 0.011),
    "lp_nug30": ("real-sample", "optimisation", 52_260, 379_350, 1_567_800, 0.021),
}

COPY_GB_PER_S = 4130.0
BYTES = {"float16": 2, "bfloat16": 2, "tf32": 4, "float32": 4}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def matrix_row(name: str) -> dict:
    _, kind, m, k, nnz, fill = MATRICES[name]
    tiles = max(1, round(nnz / (256 * fill)))
    return {
        "matrix": name,
        "matrix_sha256": sha256(name),
        "source": "generated" if kind in ("tiles", "lattice") else "suitesparse",
        "origin": f"group/{name}",
        "kind": kind,
        "m": m,
        "k": k,
        "nnz": nnz,
        "stored_entries": nnz,
        "explicit_zeros": 0,
        "duplicates": 0,
        "density_fraction": nnz / (m * k),
        "empty_rows": 0,
        "nonempty_columns": k,
        "bandwidth": k - 1,
        "row_length_min": 1,
        "row_length_mean": nnz / m,
        "row_length_median": nnz / m,
        "row_length_p90": 1.4 * nnz / m,
        "row_length_p99": 2.0 * nnz / m,
        "row_length_max": int(3 * nnz / m),
        "row_length_std": 0.3 * nnz / m,
        "tiles_16x16": tiles,
        "tile_fill_16x16_fraction": fill,
        "tile_24_16x16_fraction": min(1.0, 0.02 / fill),
        "tiles_16x32": max(1, round(tiles * 0.6)),
        "tile_fill_16x32_fraction": fill * 0.8,
        "tile_24_16x32_fraction": min(1.0, 0.01 / fill),
        "alpha_fraction": min(1.0, 0.06 + fill),
        **_super_tiles(nnz, fill),
        **_bricks(nnz, min(1.0, 0.03 + fill)),
    }


def _super_tiles(nnz: int, fill: float) -> dict:
    """Each doubling of a tile's side keeps seven tenths of its fill."""
    row: dict = {}
    for doublings, side in enumerate((32, 64, 128), 1):
        row[f"tile_fill_{side}x{side}_fraction"] = fill * 0.7**doublings
        row[f"tiles_{side}x{side}"] = max(1, round(nnz / (side * side * fill * 0.7**doublings)))
    return row


def _bricks(nnz: int, fill: float) -> dict:
    """Half of the bricks hold one entry, the others 17 to 32."""
    bricks = max(2, round(nnz / (64 * fill)))
    empty = dict.fromkeys(("2", "3_to_4", "5_to_8", "9_to_16", "33_to_64"), 0)
    of = {"1": bricks // 2, "17_to_32": bricks - bricks // 2, **empty}
    return {
        "bricks_16x4": bricks,
        "brick_fill_16x4_fraction": fill,
        **{f"bricks_of_{name}": count for name, count in of.items()},
    }


def format_rows() -> list[dict]:
    rows = []
    for name, (_, _, m, _, nnz, fill) in MATRICES.items():
        alpha = min(1.0, 0.06 + fill)
        for format, slots, blocks in (
            ("csr", nnz, m),
            ("bcsr_16x16", round(nnz / fill), round(nnz / (256 * fill))),
            ("hrpb", round(nnz / alpha), round(nnz / (256 * alpha))),
        ):
            nbytes = 2 * slots + 4 * (nnz if format == "csr" else blocks) + 4 * (m // 16 + 1)
            rows.append(
                {
                    "format": format,
                    "matrix": name,
                    "matrix_sha256": sha256(name),
                    "dtype": "float16",
                    "status": "ok",
                    "format_bytes": nbytes,
                    "stored_slots": slots,
                    "covered_slots": slots,
                    "blocks": blocks,
                    "fill_fraction": min(1.0, nnz / slots),
                    "bytes_per_nnz": nbytes / nnz,
                    "expansion_over_csr": nbytes / (6 * nnz + 4 * (m + 1)),
                    "build_ms": 12.5,
                    "round_trip": True,
                }
                | ({"alpha": alpha, "beta": 1.0} if format == "hrpb" else {})
            )
    return rows


def kernel_rows() -> list[dict]:
    rows = []
    for number, name in enumerate(name for name, head in HEADS.items() if not head["vendor"]):
        for arch in ("sm_80", "sm_89", "sm_90a"):
            rows.append(
                {
                    "kernel": name,
                    "arch": arch,
                    "status": "ok",
                    "kernel_sha256": sha256(name),
                    "launch_sha256": sha256(f"launch of {name}"),
                    "cubin_sha256": sha256(name + arch),
                    "cubin_bytes": 9000 + 400 * number,
                    "registers": 32 + 4 * number,
                    "stack_bytes": 0,
                    "spill_store_bytes": 8 if name == "mma_obts" and arch == "sm_80" else 0,
                    "spill_load_bytes": 0,
                    "static_shared_bytes": 1024 * (number + 1),
                    "compiler": "NVRTC 13.0.88",
                }
            )
    return rows


def measure_row(kernel: str, matrix: str, n: int, **changes) -> dict:
    """One verified row; ``changes`` replaces columns. The time is what the model of this module says."""
    suite, _, m, k, nnz, fill = MATRICES[matrix]
    dtype = HEADS[kernel]["dtype"]
    size = BYTES[dtype["a"]]
    compulsory = nnz * (size + 4) + 4 * (m + 1) + size * n * (m + k)
    share, tiled = SPEED[kernel]
    waste = 1 + tiled * (0.06 / fill if fill < 0.3 else 0.0)
    flops = 2 * nnz * n
    peak = 100_000 if "mma" in HEADS[kernel]["features"] else 45_000
    time_ms = 0.004 + max(1e-6 * compulsory * waste / (COPY_GB_PER_S * share), 1e-6 * flops / peak)
    row = {
        "device": DEVICE,
        "arch": "sm_90a",
        "driver": "580.65.06",
        "cuda": "13.0",
        "suite": suite,
        "study": HEADS[kernel]["study"],
        "kernel": kernel,
        "kernel_sha256": sha256(kernel),
        "format": HEADS[kernel]["format"],
        "matrix": matrix,
        "matrix_sha256": sha256(matrix),
        "m": m,
        "k": k,
        "n": n,
        "nnz": nnz,
        "dtype_a": dtype["a"],
        "dtype_b": dtype["b"],
        "dtype_accumulator": dtype["accumulator"],
        "dtype_c": dtype["c"],
        "l2": "cold",
        "protocol": 1,
        "time_ms": time_ms,
        "time_p10_ms": 0.99 * time_ms,
        "time_p90_ms": 1.02 * time_ms,
        "samples": 40,
        "replay_ms": 0.004,
        "useful_gflops": 1e-6 * flops / time_ms,
        "padded_gflops": 1e-6 * flops / time_ms / (fill if tiled else 1.0),
        "compulsory_bytes": compulsory,
        "format_bytes": nnz * (size + 4),
        "preprocess_ms": 3.5,
        "rel_error": (2.1e-4 if dtype["accumulator"] == "float32" else 9.0e-4) if size == 2 else 1.3e-7,
        "max_row_error": 9.0e-4 if size == 2 else 6.0e-7,
        "status": "ok",
        "noisy": False,
        "sm_clock_mhz": 1980,
        "git_commit": "0123abc",
        "measured_at": "2026-11-20T21:30:00Z",
    } | changes
    if row["status"] != "ok":
        timed = [column.name for column in contracts.table("measure").columns if ("status", "ok") in column.when]
        row = {name: value for name, value in row.items() if name not in timed}
    return row


def measure_rows(**changes) -> list[dict]:
    """All rows: mma_t is wrong once, mma_obts refuses one matrix, and one row of row_split ran on a noisy device."""
    rows = []
    for kernel in HEADS:
        for matrix in MATRICES:
            for n in WIDTHS:
                special = {}
                if (kernel, matrix, n) == ("mma_t", "dblp-2010", 512):
                    special = {"status": "wrong", "message": "relative error 0.31 is above the tolerance 0.002"}
                if (kernel, matrix) == ("mma_obts", "lp_nug30"):
                    special = {"status": "unsupported", "message": "needs as many rows as columns"}
                if (kernel, matrix, n) == ("row_split", "cfd1", 32):
                    special = {"noisy": True}
                rows.append(measure_row(kernel, matrix, n, **special | changes))
    return rows


def profile_rows() -> list[dict]:
    """Counters of two kernels on cfd1."""
    names = contracts.table("profile").names
    rows = []
    for kernel in ("bricks", "mma_bt"):
        case = {name: value for name, value in measure_row(kernel, "cfd1", 128).items() if name in names}
        rows += [case | {"metric": metric, "unit": "", "value": value} for metric, value in COUNTERS.items()]
    return rows


#: Warps in each state, for each instruction issued.
STALLS = {
    "selected": 1.0,
    "not_selected": 0.4,
    "long_scoreboard": 6.0,
    "short_scoreboard": 1.5,
    "barrier": 1.2,
    "wait": 0.9,
    "math_pipe_throttle": 0.3,
    "sleeping": 0.1,
}

#: Nsight's counters of a call.
COUNTERS = {
    "gpu__time_duration.sum": 50_000.0,
    "dram__bytes.sum": 1e8,
    "lts__t_bytes.sum": 3.2e8,
    "lts__t_sectors_srcunit_tex.sum": 2e8 / 32,
    "lts__t_sector_hit_rate.pct": 80.0,
    "memory_l2_theoretical_sectors_global": 1000.0,
    "memory_l2_theoretical_sectors_global_ideal": 900.0,
    "smsp__inst_executed.sum": 4e6,
    "sm__inst_executed_pipe_tensor_op_hmma.sum": 3e5,
    "sm__inst_executed_pipe_tensor_op_gmma.sum": 1e5,
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": 2e6,
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 5e6,
    "l1tex__t_bytes.sum": 6e8,
    "l1tex__throughput.avg.pct_of_peak_sustained_active": 35.0,
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum": 0.0,
    "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum": 0.0,
    "sm__maximum_warps_per_active_cycle_pct": 50.0,
    "smsp__issue_active.avg.pct_of_peak_sustained_active": 25.0,
    "smsp__thread_inst_executed_per_inst_executed.ratio": 28.0,
    "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio": 25.0,
    "smsp__sass_branch_targets_threads_divergent.sum": 5280.0,
    "smsp__sass_inst_executed_op_global_ld.sum": 4e5,
    "smsp__sass_inst_executed_op_shared_ld.sum": 1e5,
    "smsp__inst_executed_op_ldsm.sum": 6e5,
    "launch__grid_size": 4096.0,
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": 12.0,
    "sm__ops_path_tensor_op_hmma_src_fp16_dst_fp16_sparsity_off.sum": 3e9,
    "sm__ops_path_tensor_op_hmma_src_fp16_dst_fp16_sparsity_on.sum": 1e9,
} | {f"smsp__average_warps_issue_stalled_{state}_per_issue_active.ratio": warps for state, warps in STALLS.items()}


def device_record(**changes) -> dict:
    return {
        "device": DEVICE,
        "product": "NVIDIA H200",
        "arch": "sm_90a",
        "driver": "580.65.06",
        "cuda": "13.0",
        "multiprocessors": 132,
        "l2_bytes": 62_914_560,
        "memory_bytes": 150_754_820_096,
        "max_sm_clock_mhz": 1980,
        "copy_gb_per_s": COPY_GB_PER_S,
        "replay_overhead_ms": 0.004,
        "measured_at": "2026-11-20T21:29:00Z",
    } | changes


#: Kernels that measure ceilings: dtype of A, of the sums, instructions; level of memory; working set → rate.
CEILINGS = {
    "copy_all": ("none", "none", [], "dram", {2 << 30: 4100.0}),
    "read_all": ("none", "none", [], "dram", {2 << 30: 4400.0}),
    "sweep": ("none", "none", [], "l2", {1 << 20: 3000.0, 24 << 20: 8000.0, 96 << 20: 9000.0}),
    "chains": ("float32", "float32", [], "", {32 << 10: 60_000.0}),
    "products": ("float16", "float32", ["mma"], "", {32 << 10: 635_000.0}),
    "more_products": ("float16", "float32", ["mma"], "", {32 << 10: 600_000.0}),
    "group_products": ("float16", "float32", ["wgmma"], "", {32 << 10: 800_000.0}),
    "sparse_products": ("float16", "float32", ["mma_sp"], "", {32 << 10: 950_000.0}),
}
CEILING_HEADS = {
    name: _head(name, "ceilings", dtype_a, sums, features) | {"format": "none"}
    for name, (dtype_a, sums, features, _, _) in CEILINGS.items()
}


def ceiling_rows(**changes) -> list[dict]:
    """The table of ceilings of the device; ``changes`` replaces columns of every row."""
    rows = []
    for kernel, (_, _, _, level, rates) in CEILINGS.items():
        for size, rate in rates.items():
            row = {
                "device": DEVICE,
                "arch": "sm_90a",
                "driver": "580.65.06",
                "cuda": "13.0",
                "l2_bytes": 62_914_560,
                "kernel": kernel,
                "kernel_sha256": sha256(kernel),
                "counted": "bytes" if level else "flops",
                "level": level,
                "working_set_bytes": size,
                "protocol": 1,
                "rate_gb_per_s" if level else "rate_gflops": rate,
                "time_ms": 1.0,
                "time_p10_ms": 0.99,
                "time_p90_ms": 1.02,
                "samples": 40,
                "status": "ok",
                "noisy": False,
                "sm_clock_mhz": 1980,
                "git_commit": "0123abc",
                "measured_at": "2026-11-20T21:29:30Z",
            }
            rows.append(row | changes)
    return rows


FINGERPRINTS = {name: sha256(name) for name in (*HEADS, *CEILINGS)}


def write_measures(rows: list[dict], folder: Path) -> list[Path]:
    """``<folder>/<suite>/<kernel>.csv`` as the stage measure lays them out."""
    files: dict[Path, list[dict]] = {}
    for row in rows:
        files.setdefault(folder / row["suite"] / f"{row['kernel']}.csv", []).append(row)
    for path, content in files.items():
        contracts.write(contracts.frame(content, "measure"), path, "measure")
    return sorted(files)


def write_recorded(folder: Path, rows: list[dict] | None = None, ceilings: list[dict] | None = None) -> Path:
    """A folder as ``resources/recorded/<device>``: everything that the analyses need, without the matrices.

    Ceilings are optional there, as they are in a folder that was recorded before they were measured.
    """
    write_measures(measure_rows() if rows is None else rows, folder)
    for name, content in (
        ("matrices", [matrix_row(name) for name in MATRICES]),
        ("formats", format_rows()),
        ("kernels", kernel_rows()),
    ):
        contracts.write(contracts.frame(content, name), folder / f"{name}.csv", name)
    counters = folder / "profile" / "real-sample" / "bricks.csv"
    contracts.write(contracts.frame(profile_rows(), "profile"), counters, "profile")
    (folder / "device.json").write_text(json.dumps(device_record()))
    if ceilings is not None:
        contracts.write(contracts.frame(ceilings, "measure_ceilings"), folder / "ceilings.csv", "measure_ceilings")
    return folder


def analyse(out: Path, **changes) -> Path:
    """Run the stage analysis; inputs that ``changes`` does not name are empty."""
    from spmm_roofline import analysis

    inputs = {
        "measured": [],
        "profiled": [],
        "recorded": [],
        "matrices": [],
        "formats": [],
        "kernels": [],
        "fingerprints": FINGERPRINTS,
        "devices": list((ROOT / "config/devices").glob("*.yaml")),
        "device_records": [],
        "heads": HEADS | CEILING_HEADS,
        "out": out,
        "claims": Path(__file__).with_name("claims.yaml"),
        "bootstrap": 300,
        "processes": 1,  # these few rows are analysed in less time than processes start
    }
    analysis.run(**inputs | changes)
    return out


def case_table():
    """Table ``analysis_cases`` of :func:`measure_rows`, without the rest of the stage."""
    from spmm_roofline.analysis.cases import cases

    datasheet = contracts.document(ROOT / "config/devices/h200.yaml", "device")
    return cases(
        contracts.frame([], "measure"),
        contracts.frame(measure_rows(), "measure"),
        contracts.frame([matrix_row(name) for name in MATRICES], "matrices"),
        contracts.frame(kernel_rows(), "kernels"),
        HEADS,
        FINGERPRINTS,
        {DEVICE: datasheet["peak_gflops"]},
        {DEVICE: COPY_GB_PER_S},
        described={DEVICE: device_record()},
    )


def block_rows() -> list[dict]:
    """Rows of table ``measure_blocks``: two sparsities and two lengths of a pruned layer, and three masks."""
    common = {
        "device": DEVICE, "arch": "sm_90a", "driver": "580.65.06", "cuda": "13.0", "torch": "2.11.0", "batch": 1,
        "heads": 8, "head_width": 64, "l2": "cold", "protocol": 1, "git_commit": "0123abc",
        "measured_at": "2026-11-20T21:29:30Z",
    }  # fmt: skip
    timed = {
        "status": "ok", "timed": "graph", "samples": 40, "rows_checked": 64, "rel_error": 1e-3, "max_row_error": 2e-3,
        "max_column_error": 2e-3, "noisy": False, "sm_clock_mhz": 1980,
    }  # fmt: skip

    def at(time_ms: float) -> dict:
        return timed | {"time_ms": time_ms, "time_p10_ms": 0.98 * time_ms, "time_p90_ms": 1.04 * time_ms}

    rows = []
    for sequence in (512, 4096):
        layer = common | {"suite": "pruned-block", "block": "pruned", "sequence": sequence}
        attention_ms, dense_ms = (sequence / 4096) ** 2 * 0.2, sequence / 4096 * 0.1
        for sparsity in (0.8, 0.95):
            weights = {"pattern": f"weights-512-{sparsity}", "sparsity_fraction": sparsity}
            weights["nnz"] = round(4 * 512 * 512 * (1 - sparsity))
            for dtype in ("float16", "tf32"):
                for name, factor in (("dense", 1.0), ("ours", 6 * (1 - sparsity)), ("cusparse", 12 * (1 - sparsity))):
                    projections_ms = factor * dense_ms
                    if name != "dense" or sparsity == 0.8:
                        row = layer | weights | at(projections_ms + attention_ms) | {"projections_ms": projections_ms}
                        rows.append(row | {"implementation": name, "dtype": dtype})
            thesis = layer | weights | at(2 * dense_ms + attention_ms) | {"projections_ms": 2 * dense_ms}
            rows.append(thesis | {"implementation": "thesis", "dtype": "float32", "kernel": "xw_tiles"})
        masked = common | {"suite": "masked-attention", "block": "masked", "sequence": sequence}
        pairs = sequence * sequence
        for mask, nnz in (("window 512", 512 * sequence), ("blocks 0.05", pairs // 20), ("random 0.1", pairs // 10)):
            for dtype in ("float16", "bfloat16"):
                about = masked | {"pattern": mask, "dtype": dtype, "nnz": nnz, "sparsity_fraction": 1 - nnz / pairs}
                for name, scores, time_ms in (
                    ("ours", 2 * nnz, 2e-8 * nnz),
                    ("sdpa_mask", pairs, 4e-8 * pairs),
                    ("flash", pairs, 1e-8 * pairs),
                ):
                    rows.append(about | {"implementation": name, "scores": scores} | at(time_ms))
    lost = {"implementation": "sdpa_mask", "pattern": "random 0.1", "dtype": "float16", "sequence": 16384}
    lost |= {"suite": "masked-attention", "block": "masked", "status": "out_of_memory", "message": "4 GiB"}
    return [*rows, common | lost]
