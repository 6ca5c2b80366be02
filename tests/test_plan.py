"""The plan of a run: which device, which kernels, which shards; no file is read but the config's own."""

import importlib.util
from types import SimpleNamespace

import pytest
import yaml

from spmm_roofline import fingerprint
from spmm_roofline.measure import device
from spmm_roofline.plan import Plan, PlanError, Shard, shards, takes


@pytest.fixture
def config():
    with open("config/config.yaml") as file:
        return yaml.safe_load(file)


@pytest.fixture
def gpu(monkeypatch):
    """``gpu(capability, product)``: a machine with such a GPU, and CuPy."""

    def present(capability=(9, 0), product="NVIDIA H200", cupy=True):
        monkeypatch.setattr(device, "visible", lambda: [device.Gpu("GPU-0", product, capability, "580")])
        found = importlib.util.find_spec
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: cupy or None if name == "cupy" else found(name))

    return present


def test_the_gpu_that_is_here_measures(config, gpu):
    gpu()
    plan = Plan(config)
    assert plan.device == ("h200", "sm_90a")
    assert "results/measure/h200/quick/mma_bt.csv" in plan.measured()
    assert plan.archs == ["sm_80", "sm_89", "sm_90a"]


def test_a_gpu_without_a_datasheet_is_measured_and_compiled_for(config, gpu):
    gpu((8, 6), "NVIDIA GeForce RTX 3090")
    plan = Plan(config)
    assert plan.device == ("rtx3090", "sm_86") and "sm_86" in plan.archs


def test_a_gpu_without_cupy_is_left_alone_and_that_is_said(config, gpu):
    gpu(cupy=False)
    plan = Plan(config)
    assert plan.device is None and plan.measured() == []
    assert any("CuPy is not installed" in sentence for sentence in plan.notices())


def test_patterns_name_kernels_and_what_they_miss(config):
    kernels, missing = Plan(config).resolve(["smat/*", "cusparse_csr_alg2", "nobody/*"])
    assert kernels == ["cusparse_csr_alg2", "mma_t", "mma_bt", "mma_bt_f32", "mma_cbt"]
    assert missing == ["nobody/*"]


def test_microbenchmarks_of_the_machine_are_no_spmm(config):
    assert Plan(config).resolve(["*"])[0].count("dram_copy") == 0


def test_ceilings_are_the_kernels_that_multiply_no_matrix(config, gpu):
    gpu()
    plan = Plan(config)
    assert plan.ceilings() == ["results/measure/h200/ceilings.csv"]
    inputs, job = plan.ceiling_inputs(None), plan.ceiling_params(None)
    assert {"dram_copy", "l2_read", "mma_f16_f16_sums"} <= set(job["kernels"]) and "mma_bt" not in job["kernels"]
    assert inputs["cubins"] == [f"results/kernels/sm_90a/{name}.cubin" for name in job["kernels"]]
    config["measure"]["device"] = "none"
    assert Plan(config).ceilings() == []


def test_a_kernel_of_one_stencil_is_planned_for_its_grids_alone(config, gpu):
    gpu()
    plan = Plan(config | {"suite": "memory-bound-stencils"})
    head = plan.heads["stencil_cc_2d9pt"]
    specs = plan.suites["memory-bound-stencils"].specs
    assert {name for name, spec in specs.items() if takes(head, spec)} == {"2d9pt-1024", "2d9pt-3072"}
    job = SimpleNamespace(suite="memory-bound-stencils", kernel=head.name, shard="")
    wanted = ["results/matrices/2d9pt-1024.npz", "results/matrices/2d9pt-3072.npz"]
    assert plan.measure_inputs(job)["matrices"] == wanted
    # A matrix of another source does not say what it was made for: its row will.
    assert takes(head, {"matrix": "mine", "source": "file"}) and takes(plan.heads["mma_bt"], specs["2d9pt-1024"])
    # A shard of other grids has nothing to measure and is not planned.
    config["measure"]["shard"] = 4
    cut = Plan(config | {"suite": "memory-bound-stencils"}).measured()
    assert [path for path in cut if f"/{head.name}." in path] == [
        f"results/measure/h200/memory-bound-stencils/{head.name}.000.csv"
    ]


def test_large_suites_are_cut():
    names = [str(i) for i in range(20)]
    assert shards(names, 32) == (Shard("", tuple(names)),)
    cut = shards(names, 8)
    assert [shard.suffix for shard in cut] == [".000", ".001", ".002"]
    assert [name for shard in cut for name in shard.matrices] == names


def test_a_run_may_be_about_some_shards(config, gpu):
    gpu()
    config["measure"]["shard"] = 2
    whole = Plan(config).suites["quick"]
    config["shards"] = "1-2"
    part = Plan(config).suites["quick"]
    assert part.shards == whole.shards[1:3] and list(part.specs) == list(whole.specs)[2:6]
    assert not any(".000" in path or ".003" in path for path in Plan(config).measured())
    config["shards"] = 0
    assert Plan(config).suites["quick"].shards == whole.shards[:1]
    config["shards"] = "7-9"
    last = len(whole.shards) - 1
    with pytest.raises(PlanError, match=f"shards is 7-9, but those of suite quick are 0 to {last}"):
        Plan(config).suites  # noqa: B018


def test_a_recorded_device_that_is_not_there_is_named(config):
    config["analysis"]["recorded"] = ["h300"]
    with pytest.raises(PlanError, match="names 'h300', but resources/recorded has"):
        Plan(config).recorded()


def test_the_code_of_a_format_is_read_once_however_many_jobs_ask(config, monkeypatch):
    """A collection has ten thousand jobs of a dozen formats; reading code for each took minutes."""
    read = []
    modules = fingerprint.modules
    monkeypatch.setattr(fingerprint, "modules", lambda *paths: read.append(paths) or modules(*paths))
    plan = Plan(config)
    asked = [SimpleNamespace(format=name, matrix=str(i)) for name in ("csr", "hrpb") for i in range(50)]
    assert len({plan.format_fingerprint(wildcards) for wildcards in asked}) == 2
    assert len(read) == 2
