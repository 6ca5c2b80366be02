"""The plan of a run: device, kernels and shards, from the files of the config alone."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from spmm_roofline import fingerprint, matrices
from spmm_roofline.batches import Stale, journal
from spmm_roofline.kernels import heads
from spmm_roofline.matrices.generated import GENERATORS
from spmm_roofline.measure import blocks, device
from spmm_roofline.plan import CLOCK_KERNELS, Plan, PlanError
from spmm_roofline.suites import Shard, resolve, shards, takes

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def config():
    with open("config/config.yaml") as file:
        return yaml.safe_load(file)


@pytest.fixture
def gpu(monkeypatch):
    """``gpu(capability, product)``: simulate a machine with this GPU and CuPy."""

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


def test_what_describes_the_device_is_compiled_alone_and_first_and_the_ceilings_next(config, gpu):
    everything = Stale(everything=True)
    found = Plan(config, everything).compilations  # without a GPU
    assert {batch.priority for batch in found} == {0}
    gpu()
    plan = Plan(config, everything)
    first, *others = plan.compilations
    assert set(first.items) == set(CLOCK_KERNELS.values())
    assert set(plan.clock_cubins(None).values()) <= set(first.files)
    ceilings = [batch for batch in others if batch.priority]
    assert {name for batch in ceilings for name in batch.items} == {*plan.ceiling_kernels} - {*first.items}
    assert first.priority > max(batch.priority for batch in others)
    files = [file for batch in plan.compilations for file in batch.files]
    assert len(files) == len(set(files)) and set(plan.all_kernel_rows()) <= set(files)


def test_a_measurement_waits_for_its_code_its_matrices_and_one_row_of_each_packing_job(config, gpu):
    gpu()
    plan = Plan(config, Stale(everything=True))
    batch = max(plan.measurements, key=lambda batch: len(batch.files))
    jobs = [plan.job(table) for table in batch.files]
    waited, rows = {*batch.inputs}, {row for job in jobs for row in job.formats}
    assert {job.cubin for job in jobs if job.cubin} | {npz for job in jobs for npz, _ in job.matrices} <= waited
    for packing in plan.packings:
        assert len(waited & {*packing.files}) == bool(rows & {*packing.files})
    assert len(waited) < len(rows)


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
    kernels, missing = resolve(["smat/*", "cusparse_csr_alg2", "nobody/*"], Plan(config).heads)
    assert kernels == ["cusparse_csr_alg2", "mma_t", "mma_bt", "mma_bt_f32", "mma_cbt"]
    assert missing == ["nobody/*"]


def test_microbenchmarks_of_the_machine_are_no_spmm(config):
    assert resolve(["*"], Plan(config).heads)[0].count("dram_copy") == 0


def test_ceilings_are_the_kernels_that_multiply_no_matrix(config, gpu):
    gpu()
    plan = Plan(config)
    assert plan.ceilings() == ["results/measure/h200/ceilings.csv"]
    inputs, job = plan.ceiling_inputs(None), plan.ceiling_params(None)
    assert {"dram_copy", "l2_read", "mma_f16_f16_sums"} <= set(job["kernels"]) and "mma_bt" not in job["kernels"]
    assert inputs["cubins"] == [f"results/kernels/sm_90a/{name}.cubin" for name in job["kernels"]]
    config["measure"]["device"] = "none"
    assert Plan(config).ceilings() == []


def test_blocks_are_measured_where_the_config_names_them(config, gpu):
    gpu()
    plan = Plan(config)
    assert config["measure"]["blocks"] == [] == plan.blocks() and not any("weights-" in name for name in plan.specs)
    config["measure"]["blocks"] = ["quick-pruned", "quick-masked"]
    plan = Plan(config)
    assert plan.blocks() == ["results/measure/h200/blocks.csv"]
    inputs, job = plan.block_inputs(None), plan.block_params(None)
    assert inputs["weights"][:4] == [f"results/matrices/weights-512-0.8-{role}.npz" for role in blocks.ROLES]
    assert len(inputs["weights"]) == 8 and set(inputs["weights"]) <= {
        row.replace(".json", ".npz") for row in plan.matrix_rows()
    }
    assert any(inputs["weights"][0] in batch.files for batch in plan.imports)
    assert [suite["name"] for suite in job["suites"]] == ["quick-pruned", "quick-masked"]
    # Blocks need no packed format, and no matrix without a device.
    assert not any("weights-" in row for row in plan.format_rows())
    config["measure"]["device"] = "none"
    assert Plan(config).blocks() == [] and not any("weights-" in name for name in Plan(config).specs)


def test_a_suite_of_blocks_that_there_is_not_is_refused(config, gpu):
    gpu()
    config["measure"]["blocks"] = ["quick-prune"]
    with pytest.raises(PlanError, match="config/blocks has no suite called 'quick-prune'; did you mean 'quick-pruned'"):
        Plan(config).blocks()


def test_blocks_are_measured_again_where_a_kernel_or_what_measures_them_changes(config, gpu, monkeypatch):
    gpu()
    config["measure"]["blocks"] = ["quick-pruned"]

    def code(edited=None):
        plan = Plan(config)
        plan.fingerprints |= dict.fromkeys(edited or (), "edited")
        return plan.block_params(None)["code"]

    before = code()
    assert code() == before == code(["dram_copy"]) and code(["split_fma"]) != before
    modules = fingerprint.modules
    monkeypatch.setattr(fingerprint, "modules", lambda *paths: modules(*paths) + str("block.py" in str(paths)))
    assert code() != before


def test_only_an_option_of_stencils_is_a_parameter_of_a_generator():
    # By the same name, a kernel would refuse matrices whose parameter has another value.
    parameters = {name for made in GENERATORS.values() for name in made.defaults}
    options = {option for head in heads().values() if head.format != "stencil" for option in head.format_options}
    assert "points" in parameters and "ctas" in options and not parameters & options


def test_a_kernel_of_one_stencil_is_planned_for_its_grids_alone(config, gpu):
    gpu()
    plan = Plan(config | {"suite": "memory-bound-stencils"})
    head = plan.heads["stencil_cc_2d9pt"]
    specs = plan.suites["memory-bound-stencils"].specs
    assert {name for name, spec in specs.items() if takes(head, spec)} == {"2d9pt-1024", "2d9pt-10240"}
    job = plan.job(f"results/measure/h200/memory-bound-stencils/{head.name}.csv")
    assert [npz for npz, _ in job.matrices] == [
        "results/matrices/2d9pt-10240.npz",
        "results/matrices/2d9pt-1024.npz",
    ]
    # A matrix of another source has no generator parameters; its row decides later.
    assert takes(head, {"matrix": "mine", "source": "file"}) and takes(plan.heads["mma_bt"], specs["2d9pt-1024"])
    # A shard with only other grids has nothing to measure and is not planned.
    config["measure"]["shard"] = 4
    cut = Plan(config | {"suite": "memory-bound-stencils"}).measured()
    assert [path for path in cut if f"/{head.name}." in path] == [
        f"results/measure/h200/memory-bound-stencils/{head.name}.{shard}.csv" for shard in ("000", "001")
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
    with pytest.raises(PlanError, match=f"shards is 7-9, but suite quick has shards 0 to {last}"):
        Plan(config).suites  # noqa: B018


MESHES = "results/measure/h200/meshes"


def suite_of_meshes(folder, **profile):
    """A suite of five meshes in ``folder``; ``profile`` chooses what is profiled."""
    meshes = [{"generator": "mesh2d", "name": f"mesh{i}", "nodes": 8 + i} for i in range(5)]
    document = {"name": "meshes", "title": "five meshes", "matrices": {"generated": meshes}, "n": [8, 16, 32]}
    document |= {"kernels": ["smat/*", "cusparse_csr_alg2"], "protocol": {"l2": "warm"}}
    document |= {"profile": profile} if profile else {}
    (folder / "config/suites").mkdir(parents=True, exist_ok=True)
    (folder / "config/suites/meshes.yaml").write_text(yaml.safe_dump(document))


@pytest.fixture
def meshes(config, gpu, tmp_path, monkeypatch):
    """``meshes(**profile)``: the plan of a run that profiles such a suite on a simulated H200."""
    gpu()
    for name in ("kernels", "resources"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "config").mkdir()
    (tmp_path / "config/devices").symlink_to(ROOT / "config/devices")
    monkeypatch.chdir(tmp_path)
    config["profile"]["suites"] = ["meshes"]

    def plan(**profile):
        suite_of_meshes(tmp_path, **profile)
        made = Plan(config | {"suite": "meshes"})
        assert list(made.suites) == ["meshes"]  # read before the next one is written
        return made

    return plan


COUNTERS = "results/profile/h200/meshes"


def test_without_a_choice_the_first_matrices_of_a_suite_are_profiled(config, meshes):
    config["profile"]["matrices"] = 2
    config["measure"]["shard"] = 3
    plan = meshes()
    assert [npz for npz, _ in plan.job(f"{COUNTERS}/mma_t.000.csv").matrices] == [
        "results/matrices/mesh0.npz",
        "results/matrices/mesh1.npz",
    ]
    # The second shard has none of them, so it is not profiled.
    assert {path.rpartition("/")[2] for path in plan.profiled()} == {
        f"{kernel}.000.csv" for kernel in plan.suites["meshes"].kernels
    }
    assert plan.job(f"{COUNTERS}/mma_t.000.csv").n == plan.job(f"{MESHES}/mma_t.000.csv").n


def test_a_suite_chooses_what_is_profiled(config, meshes):
    config["profile"]["matrices"] = 1
    config["measure"]["shard"] = 2
    plan = meshes(matrices=["mesh4", "mesh1"], n=[32], kernels=["smat/mma_t", "cusparse*"])
    assert plan.profiled() == [
        f"{COUNTERS}/{kernel}{shard}.csv" for kernel in ("cusparse_csr_alg2", "mma_t") for shard in (".000", ".002")
    ]
    job = plan.job(f"{COUNTERS}/mma_t.000.csv")
    assert [npz for npz, _ in job.matrices] == ["results/matrices/mesh1.npz"]
    assert job.formats == ["results/formats/bcsr_16x16/mesh1.json"]
    assert job.n == [32]
    # Every kernel of a shard is profiled by the same job.
    assert {batch.rule: len(batch.files) for batch in plan.profiles} == {
        "profile_meshes_000_0": 2,
        "profile_meshes_002_0": 2,
    }


def test_counters_are_stale_where_what_they_are_made_of_changes(config, meshes):
    chosen = {"matrices": ["mesh4", "mesh1"], "kernels": ["mma_t", "mma_bt"]}
    (batch,) = meshes(**chosen).profiles
    table = Path(f"{COUNTERS}/mma_t.csv")
    table.parent.mkdir(parents=True)
    table.touch()
    journal(str(table)).write_text(json.dumps({"finished": batch.made_of[str(table)]}) + "\n")
    (rest,) = meshes(**chosen).profiles
    assert rest.files == (f"{COUNTERS}/mma_bt.csv",)
    (other,) = meshes(**chosen, n=[8]).profiles
    assert set(other.files) == set(batch.files)


@pytest.mark.parametrize(
    ("said", "options", "stale"),
    [
        ("", {}, False),
        ("", {"energy": True}, True),
        (" energy", {"energy": True}, False),
        (" energy", {}, False),
        ("", {"case_timeout_s": 240}, False),
        (" timeout 120", {}, False),
        (" timeout 120", {"case_timeout_s": 240}, True),
        (" timeout 120", {"case_timeout_s": 60}, False),
        (" energy timeout 120", {}, False),
    ],
)
def test_energies_and_a_longer_limit_of_time_measure_what_lacks_them(config, meshes, said, options, stale):
    (batch,) = meshes().measurements
    for table, made_of in batch.made_of.items():
        journal(table).parent.mkdir(parents=True, exist_ok=True)
        Path(table).touch()
        journal(table).write_text(json.dumps({"finished": made_of + said}) + "\n")
    config["measure"] |= options
    plan = meshes()
    assert bool(plan.measurements) == stale and {*plan.profiles[0].made_of.values()}.isdisjoint(batch.made_of.values())
    assert not stale or {*plan.measurements[0].files} == {*batch.files}


def test_a_suite_that_is_cut_otherwise_leaves_tables_over(config, meshes):
    config["measure"]["shard"] = 3
    config["shards"] = 0
    folder = Path(MESHES)
    folder.mkdir(parents=True)
    for name in ("mma_bt", "mma_bt.000", "mma_bt.001", "mma_bt.002", "mma_bt_f32"):
        (folder / f"{name}.csv").touch()
    plan = meshes()
    (table,) = [path for path in plan.measured() if "/mma_bt." in path]
    (task,) = plan.tasks([table], {table: ""})
    assert [path.name for path in task.left_over] == ["mma_bt.002.csv", "mma_bt.csv"]


def test_what_is_profiled_measures_nothing_anew(meshes):
    whole, chosen = meshes(), meshes(matrices=["mesh4"], n=[8], kernels=["mma_t"])
    assert whole.measured() == chosen.measured()
    (before,), (after,) = whole.measurements, chosen.measurements
    assert before == after
    (whole_batch,), (chosen_batch,) = whole.profiles, chosen.profiles
    assert set(chosen_batch.made_of.items()).isdisjoint(whole_batch.made_of.items())


def test_a_chosen_matrix_that_a_run_does_not_have_is_said(meshes):
    plan = meshes(matrices=["mesh4", "elsewhere"])
    assert plan.profiled_matrices("meshes", "mma_t") == ["mesh4"]
    assert plan.notices() == ["suite meshes: elsewhere would be profiled, but this run does not have it"]


def test_a_suite_to_profile_that_a_run_does_not_measure_is_said(config, meshes):
    config["profile"]["suites"] = ["meshes", "quick"]
    plan = meshes()
    plan.check_targets(["profile"])
    assert plan.notices() == [
        "suite quick: profile.suites names it, but this run does not measure it, so it is not profiled"
    ]
    config["profile"]["suites"] = ["quick"]
    with pytest.raises(
        PlanError, match=r"nothing to do: this run does not measure quick; name .* --config suite=quick"
    ):
        meshes().check_targets(["profile"])
    config["profile"]["suites"] = []
    with pytest.raises(PlanError, match=r"nothing to do: profile\.suites is empty"):
        meshes().check_targets(["profile"])


def test_a_bundle_that_is_missing_is_refused(config):
    config["bundle"] = "nofile.tar.gz"
    Plan(config).check_targets(["report"])
    with pytest.raises(PlanError, match=r"nofile\.tar\.gz: there is no such file; a relative path counts from"):
        Plan(config).check_targets(["check_bundle"])


def test_a_width_that_is_not_measured_is_not_profiled(meshes):
    with pytest.raises(PlanError, match="suite meshes profiles N = 64, which it does not measure"):
        meshes(n=[8, 64])


def test_what_a_suite_chooses_to_profile_is_in_it(config):
    plan = Plan(config)
    for path in sorted((ROOT / "config/suites").glob("*.yaml")):
        suite = yaml.safe_load(path.read_text())
        wanted = suite.get("profile", {})
        assert set(wanted.get("n", [])) <= set(suite["n"]), f"{path.name} profiles a width that it does not measure"
        own = set(resolve(suite["kernels"], plan.heads)[0])
        for pattern in wanted.get("kernels", []):
            assert own & set(resolve([pattern], plan.heads)[0]), (
                f"{path.name}: {pattern!r} matches no kernel of the suite"
            )
        queried = any("query" in entry for entry in suite["matrices"].get("suitesparse", []))
        if wanted.get("matrices") and not queried:  # a query needs the network
            strange = set(wanted["matrices"]) - {spec["matrix"] for spec in matrices.expand(suite, config)}
            assert not strange, f"{path.name} profiles {min(strange)!r}, which is none of its matrices"


def test_a_recorded_device_that_is_not_there_is_named(config):
    config["analysis"]["recorded"] = ["h300"]
    with pytest.raises(PlanError, match="names 'h300', but resources/recorded has"):
        Plan(config).recorded()


def test_suites_of_the_run_have_sections_or_those_that_are_named(config, gpu):
    assert Plan(config).shown_suites() == ["quick"]
    for wanted, shown in (("all", None), (["real-sample", "flagship"], ["flagship", "real-sample"]), ([], [])):
        config["report"]["suites"] = wanted
        assert Plan(config).shown_suites() == shown
    config["report"]["suites"] = ["flagschip"]
    with pytest.raises(PlanError, match=r"report\.suites names 'flagschip'.* did you mean 'flagship'"):
        Plan(config).shown_suites()


PLANNED = """
import importlib.util, json, yaml
from spmm_roofline.measure import blocks, device
device.visible = lambda: [device.Gpu("GPU-0", "NVIDIA H200", (9, 0), "580")]
found = importlib.util.find_spec
importlib.util.find_spec = lambda name: True if name == "cupy" else found(name)
from tests.test_plan import measurements
print(json.dumps(measurements(yaml.safe_load(open("config/config.yaml")) | {"suite": "quick"})))
"""


def planned(root):
    """The result of :func:`measurements` in another checkout."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "workflow"), str(ROOT)])}
    done = subprocess.run([sys.executable, "-c", PLANNED], cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the sources to edit, and its measurements before any edit."""
    root = tmp_path_factory.mktemp("tree")
    for name in ("workflow", "kernels", "config"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    return root, planned(root)


def measurements(config):
    """Kernel of ``quick`` → the fingerprint of its table."""
    (batch,) = Plan(config, Stale(everything=True)).measurements
    return {Path(path).stem: made_of for path, made_of in batch.made_of.items()}


@pytest.mark.parametrize(
    ("path", "old", "new", "formats"),
    [
        ("kernels/packing/windows.cu", "int tiles = 0", "int tiles = 1", {"vectors_8x1", "vectors_16x1"}),
        (
            "kernels/include/packing/partition.cuh",
            "return number == 0 ? 0",
            "return number == 0 ? 1",
            {"vectors_8x1", "vectors_16x1", "csr_split"},
        ),
        (
            "kernels/include/packing/rows.cuh",
            "int column = begin < end",
            "int column = begin <= end",
            {"csr_split", "csr_partitioned"},
        ),
        (
            "workflow/spmm_roofline/formats/builder.py",
            "max(ceil_div(count, CTA), 1)",
            "max(ceil_div(count, CTA), 2)",
            {"vectors_8x1", "vectors_16x1", "csr_split", "csr_partitioned", "csr_binned", "panels_64x32"},
        ),
        ("kernels/packing/csr_binned.cu", "longer[bin] = rank + 1", "longer[bin] = rank", {"csr_binned"}),
        ("kernels/packing/windows.cu", "// Packs a CSR", "// Makes a CSR", set()),
        ("workflow/spmm_roofline/formats/builder.py", '"""CTAs with one', '"""CTAs that have one', set()),
    ],
)
def test_an_edit_of_what_packs_plans_the_measurements_of_its_formats(tree, path, old, new, formats):
    root, before = tree
    text = (root / path).read_text()
    assert old in text
    (root / path).write_text(text.replace(old, new, 1))
    after = planned(root)
    (root / path).write_text(text)
    again = {kernel for kernel, depends in after.items() if depends != before[kernel]}
    heads_of = {kernel: head.format for kernel, head in heads(str(ROOT / "kernels")).items()}
    assert again == {kernel for kernel in after if heads_of[kernel] in formats}
    assert bool(again) == bool(formats)


def test_the_code_of_a_format_is_read_once_however_many_jobs_ask(config, monkeypatch):
    """A collection has ten thousand jobs and a dozen formats; reading code for every job took minutes."""
    read = []
    modules = fingerprint.modules
    monkeypatch.setattr(fingerprint, "modules", lambda *paths: read.append(paths) or modules(*paths))
    plan = Plan(config)
    asked = [name for name in ("csr", "hrpb") for _ in range(50)]
    assert len({plan.format_fingerprint(name) for name in asked}) == 2
    assert len(read) == 2
