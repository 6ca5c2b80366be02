"""The rules of the architecture, one test each; every failure is one sentence."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from spmm_roofline import contracts, matrices, paths
from spmm_roofline.formats import FORMATS
from spmm_roofline.kernels import includes
from spmm_roofline.kernels.front_matter import SERVING
from spmm_roofline.kernels.registry import heads
from spmm_roofline.suites import resolve

ROOT = Path(__file__).resolve().parents[1]
WORKFLOW = ROOT / "workflow"
PACKAGE = WORKFLOW / "spmm_roofline"

#: The stages in order. One word names a stage everywhere.
STAGES = ("matrices", "formats", "kernels", "measure", "profile", "analysis", "report")
#: Folders of the package that are not stages, with the reason.
BESIDE_THE_ROAD = {
    "figures": "one module is one figure of the report",
    "selector": "a program asks it for a kernel, without a pipeline run",
    "multiply": "a program multiplies with it, without a pipeline run",
    "compare": "a user asks it whether a new run is faster than an old one, whatever made them",
}
#: Folders that use the package and have tests, with the reason.
PROGRAMS = {
    "examples": "a user runs them, and copies from them",
    "docs": "a user follows them: snippets run, links lead somewhere, tables and pictures agree with the code",
}
#: Allowed imports between folders, with the reason; every folder may import :data:`FOR_EVERYBODY`.
EDGES = {
    ("formats", "matrices"): "a format is packed from the canonical CSR, which its own stage knows how to load",
    ("kernels", "formats"): "the arrays of a format are the arguments of a launch",
    ("measure", "matrices"): "the reference result is computed from the canonical CSR",
    ("measure", "formats"): "A is packed on the device, within the measure job",
    ("measure", "kernels"): "the measure job times a prepared launch",
    ("measure", "multiply"): "a block is measured as a program runs it, with the products that it would use",
    ("profile", "kernels"): "the head says what is profiled",
    ("profile", "measure"): "a profiled launch is prepared like a measured one, on the same leased device",
    ("report", "figures"): "the page contains the figures",
    ("report", "analysis"): "the registry of analyses says which tables the page reads",
    ("analysis", "kernels"): "the rules that choose a general kernel are judged on the measured times",
    ("analysis", "formats"): "these rules ask for a survey of A, which a format gives",
    ("analysis", "selector"): "its choices are compared with the measured times, and its model is trained on them",
    ("selector", "matrices"): "a SciPy matrix becomes canonical and gets its features",
    ("selector", "formats"): "a format for special matrices says itself whether it can hold this one",
    ("selector", "kernels"): "the architecture of a device decides which kernels run on it",
    ("selector", "measure"): "advice is for the GPU of this machine, which the driver names",
    ("selector", "figures"): "advice prints numbers as the report does",
    ("compare", "report"): "a bundle is checked by what made it, and the page has the tables of the report",
    ("compare", "figures"): "it prints numbers as the report does",
    ("compare", "analysis"): "its means have the bootstrap intervals of the analysis",
    ("cli", "compare"): "compare compares two runs",
    ("cli", "matrices"): "a matrix file becomes canonical",
    ("cli", "selector"): "advise asks for a kernel",
    ("cli", "analysis"): "train takes the tables of measured times",
    ("cli", "kernels"): "a model keeps the heads of its kernels",
    ("cli", "run_config"): "a new kernel is measured in the suites whose patterns match it",
    ("cli", "formats"): "pack saves the arrays of a format",
    ("multiply", "formats"): "a program's matrix is packed on the device",
    ("multiply", "kernels"): "a program's product is a prepared launch",
    ("multiply", "needs"): "without CuPy it says what to install",
    ("__main__", "cli"): "the command line of an uninstalled package",
    ("run_config", "kernels"): "the compiler says which architectures it knows",
    ("run_config", "matrices"): "the names of the user's own matrices must differ from those of suites",
    ("console", "rule"): "an error that a job reports as one sentence is one sentence at planning, too",
    ("batches", "measure"): "the journal of a measured table says what the table was made of",
    ("plan", "batches"): "stale files become a few jobs",
    ("plan", "run_config"): "a config that cannot be run is refused before it is planned",
    ("plan", "analysis"): "the registry of analyses says which tables it writes",
    ("plan", "matrices"): "the code that fetches a matrix is part of its fingerprint",
    ("plan", "suites"): "the matrices of a suite become file names",
    ("suites", "matrices"): "a suite is planned by the names of its matrices",
    ("suites", "kernels"): "heads say which kernels a pattern chooses, and which matrices they take",
    ("suites", "run_config"): "a suite that cannot be run is refused before it is planned",
    ("plan", "formats"): "the code of a format is part of its fingerprint",
    ("plan", "kernels"): "heads say which format a kernel needs and what it includes",
    ("plan", "measure"): "the plan names the device and the protocol",
}
FOR_EVERYBODY = {"contracts", "fingerprint", "folder", "forked", "paths", "spelling", "__version__", "share_package"}

#: Columns whose unit is not the ending of the name, with the reason.
UNITS_ELSEWHERE = {("formats", "bytes_per_nnz"): "bytes per non-zero"}
#: Kernels, formats, suites and devices that the code may name, with the reason; all others are found by their folder.
MENTIONED = {
    "sparse24": "it also names the 2:4 pattern: in ceilings, and where a benchmark generates such a matrix",
    "dense": "the implementation of a pruned layer that the others are compared with has this name",
    "csr": "the reference result of every verification is computed from CSR",
    **dict.fromkeys(
        (
            *("mma_f64", "mma_f64_wide", "mma_sp_tf32", "mma_tf32"),
            *("mma_f8", "mma_sp_f8", "wgmma_f8", "wgmma_sp_f8"),
        ),
        "a header of kernels/include/ptx has the same name: an instruction whose peak the roofline looks up",
    ),
    "dram_copy": "it is the canary, and its rate is the bandwidth of the roofline",
    "dram_read": "it flushes L2 before a cold call",
    "quick": "the user's own matrix is measured with the widths and kernels of quick",
}

#: Entries of the root folder that belong to the project.
TREE = (
    *(
        ".ci",
        ".git_archival.txt",
        ".gitignore",
        ".gitattributes",
        "CHANGELOG.md",
        "CITATION.cff",
        "LICENSE",
        "Makefile",
        "README.md",
    ),
    *(
        ".dockerignore",
        ".github",
        ".snakemake-workflow-catalog.yml",
        ".zenodo.json",
        "CONTRIBUTING.md",
        "Dockerfile",
        "MANIFEST.in",
        "Snakefile",
        "SECURITY.md",
        "pyproject.toml",
        "setup.py",
        "benchmarks",
        "config",
        "docs",
        "envs",
        "examples",
        "kernels",
        "profiles",
        "report",
        "resources",
    ),
    *("tests", "workflow"),
)
TEXT = {
    ".py",
    ".smk",
    ".yaml",
    ".yml",
    ".toml",
    ".md",
    ".cff",
    ".cu",
    ".cuh",
    ".c",
    ".h",
    ".html",
    ".css",
    ".js",
    ".csv",
    ".txt",
    ".json",
    "",
}


def project_files():
    for name in TREE:
        top = ROOT / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and "__pycache__" not in path.parts and not path.parent.name.endswith(".egg-info"):
                yield path


def relative(path):
    return path.relative_to(ROOT).as_posix()


def tables():
    return [contracts.table(name) for name in contracts.names("tables")]


# --- one word names a stage everywhere ------------------------------------------------------------------------------


def test_the_config_has_the_stages_as_its_keys_in_road_order():
    found = list(contracts.document(ROOT / "config" / "config.yaml", "config"))
    assert found == list(STAGES), f"the keys of config/config.yaml are {found}, the stages are {list(STAGES)}"


def test_each_stage_has_one_file_of_rules_included_in_road_order():
    found = {path.stem for path in (WORKFLOW / "rules").glob("*.smk")}
    assert found == set(STAGES), f"workflow/rules holds {sorted(found)}; the stages are {sorted(STAGES)}"
    included = re.findall(r'^include: "rules/(\w+)\.smk"', (WORKFLOW / "Snakefile").read_text(), re.MULTILINE)
    assert included == list(STAGES), f"workflow/Snakefile includes {included}; the stages are {list(STAGES)}"


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_is_a_target_a_package_folder_and_a_test_folder(stage):
    rules = (WORKFLOW / "rules" / f"{stage}.smk").read_text()
    assert re.search(rf"^rule {stage}:", rules, re.MULTILINE), f"{stage}.smk has no rule {stage}"
    assert (PACKAGE / stage / "__init__.py").is_file(), f"workflow/spmm_roofline/{stage} is missing"
    tests = [path for path in (ROOT / "tests" / stage).rglob("test_*.py")]
    assert tests, f"tests/{stage} holds no test"


def test_the_package_has_no_other_folders():
    found = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    strange = found - set(STAGES) - set(BESIDE_THE_ROAD)
    assert not strange, f"workflow/spmm_roofline/{min(strange)} is neither a stage nor one of {sorted(BESIDE_THE_ROAD)}"


def test_each_test_folder_is_named_as_what_it_tests():
    found = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.rglob("test_*.py"))}
    strange = found - set(STAGES) - set(BESIDE_THE_ROAD) - set(PROGRAMS)
    assert not strange, f"tests/{min(strange)} mirrors neither a folder of the package nor one of {sorted(PROGRAMS)}"


def test_each_table_and_each_result_names_its_stage():
    for table in tables():
        stage = table.name.split("_")[0]
        assert stage in (*STAGES, *BESIDE_THE_ROAD), f"the table {table.name!r} names none of {', '.join(STAGES)}"
    for path in [*WORKFLOW.rglob("*.smk"), *PACKAGE.rglob("*.py"), WORKFLOW / "Snakefile", ROOT / "Snakefile"]:
        for folder in re.findall(r"\bresults/(\w+)", path.read_text()):
            assert folder in STAGES, f"{relative(path)} mentions results/{folder}, which names no stage"


@pytest.mark.parametrize("stage", STAGES)
def test_rules_write_into_the_folder_of_their_stage(stage):
    rules = (WORKFLOW / "rules" / f"{stage}.smk").read_text()
    for section in re.findall(r"^    (?:output|log):\n((?:^ {8}.*\n)+)", rules, re.MULTILINE):
        for folder in re.findall(r"results/(\w+)", section):
            assert folder == stage, f"{stage}.smk writes into results/{folder}; a stage writes into results/{stage}"


# --- scripts bind, functions work -----------------------------------------------------------------------------------


def rules_with_scripts():
    for path in sorted((WORKFLOW / "rules").glob("*.smk")):
        for body in re.split(r"^(?=rule \w+:|for batch in )", path.read_text(), flags=re.MULTILINE)[1:]:
            # The rules of batches are numbered; their script has the name of what they do.
            named = re.match(r"rule (\w+):", body)
            for script in re.findall(r'^ +script:\s*"([^"]+)"', body, re.MULTILINE):
                yield path, named[1] if named else Path(script).stem, script


def test_each_script_is_named_as_its_rule():
    scripts = {path.name for path in (WORKFLOW / "scripts").glob("*.py")}
    used = set()
    for path, rule, script in rules_with_scripts():
        assert script == f"../scripts/{rule}.py", (
            f"{relative(path)}: rule {rule} runs {script}, not ../scripts/{rule}.py"
        )
        used.add(f"{rule}.py")
    assert used - scripts == set(), f"workflow/scripts lacks {sorted(used - scripts)}"
    assert scripts - used == set(), f"no rule runs workflow/scripts/{min(scripts - used)}"


@pytest.mark.parametrize("path", sorted((WORKFLOW / "scripts").glob("*.py")), ids=lambda path: path.stem)
def test_a_script_is_one_library_call(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 20, f"{relative(path)} has {len(text.splitlines())} lines; a script has at most 20"
    docstring, *statements = ast.parse(text).body
    assert isinstance(docstring, ast.Expr), f"{relative(path)} does not open with a docstring"
    last = statements.pop()
    assert isinstance(last, ast.Expr) and isinstance(last.value, ast.Call), (
        f"the last line of {relative(path)} is not one call"
    )
    logic = [statement for statement in statements if not isinstance(statement, ast.Import | ast.ImportFrom)]
    assert not logic, (
        f"{relative(path)}, line {logic[0].lineno if logic else 0}: a script imports and calls, nothing else"
    )


def test_rules_hold_no_logic():
    for path in [*(WORKFLOW / "rules").glob("*.smk")]:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert not re.search(r"\blambda\b|^\s*(def|run|import|from)\b", line), (
                f"{relative(path)}:{number} holds logic ({line.strip()!r}); it belongs in the plan or the library"
            )


# --- stages import no other stage -----------------------------------------------------------------------------------


@cache
def nodes(path, kind):
    """The nodes of a kind, or of several, in the syntax tree of a Python file."""
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kind)]


def imports(path):
    """Top-level names of the package that a module imports, anywhere in the file."""
    depth = len(path.relative_to(PACKAGE).parts)
    for node in nodes(path, (ast.Import, ast.ImportFrom)):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            names = [node.module.split(".")[0]] if node.module else [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "spmm_roofline":
            names = node.module.split(".")[1:2] or [alias.name for alias in node.names]
        else:
            names = [alias.name.split(".")[1] for alias in node.names if alias.name.startswith("spmm_roofline.")]
        for name in names:
            yield name, node.lineno


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_stage_imports_no_other_stage(path):
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for name, line in imports(path):
        assert name in FOR_EVERYBODY or name == own or (own, name) in EDGES, (
            f"{relative(path)}:{line} imports {name}: a stage reads only files; if {own} needs {name}, "
            "add the edge to EDGES with its reason"
        )


def test_no_declared_edge_is_idle():
    used = {
        (path.relative_to(PACKAGE).parts[0].removesuffix(".py"), name)
        for path in PACKAGE.rglob("*.py")
        for name, _ in imports(path)
    }
    idle = {edge for edge in EDGES if edge not in used}
    assert not idle, f"nobody imports along {min(idle)}: remove the edge"


# --- kernels --------------------------------------------------------------------------------------------------------

SOURCES = sorted(path for path in (ROOT / "kernels").rglob("*.cu") if "include" not in path.parts)
HEADERS = sorted((ROOT / "kernels" / "include").rglob("*.cuh"))


def studies():
    """Studies with kernels, and the one of the libraries that users bring."""
    return {head.study for head in registry().values()} | {"external"}


def registry():
    return heads(str(ROOT / "kernels"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_each_kernel_is_registered_under_the_name_of_its_file(path):
    head = registry().get(path.stem)
    assert head is not None, f"{relative(path)} registers no kernel called {path.stem!r}"
    assert head.path == path, f"the kernel {path.stem!r} comes from {head.path}, not from {relative(path)}"
    assert head.study == path.parent.name, f"{relative(path)} has the study {head.study!r}: move it to that folder"


def test_each_kernel_stands_above_the_one_that_it_builds_on():
    order = list(registry())
    for name, head in registry().items():
        assert head.after is None or head.after in order, f"{name}: `after` names {head.after!r}, which is no kernel"
        assert head.after is None or order.index(head.after) < order.index(name), f"{name} comes before {head.after}"


def test_each_kernel_reads_a_format_that_exists():
    for head in registry().values():
        assert head.format == "none" or head.format in FORMATS, (
            f"{relative(head.path)} reads {head.format!r}; the formats are {', '.join(FORMATS)}"
        )


def test_each_kernel_without_a_format_says_what_a_launch_does():
    for head in registry().values():
        assert (head.format == "none" and head.study not in SERVING) == bool(head.work), (
            f"{relative(head.path)}: a kernel has `work`, its flops or bytes, exactly if it has no format"
        )
        assert ("bytes" in head.work) == bool(head.memory), (
            f"{relative(head.path)}: a kernel has `memory`, the level of its bytes, exactly if its work is bytes"
        )


@pytest.mark.parametrize("path", [*SOURCES, *HEADERS], ids=lambda path: path.name)
def test_includes_follow_the_grammar(path):
    for line in re.findall(r"^\s*#\s*include\b.*", path.read_text(), re.MULTILINE):
        assert re.fullmatch(r'\s*#include (?:"(?:ptx|tile|schedule|packing)/\w+\.cuh"|<[\w/.]+>)\s*', line), (
            f"{relative(path)}: {line.strip()!r} is outside the grammar; include one of "
            + ", ".join(f'"{folder}/…"' for folder in includes.FOLDERS)
            + " or <…>"
        )
    assert all(header.is_file() for header in includes.closure(path))


def test_each_ptx_function_has_a_test():
    tests = "\n".join(p.read_text() for p in (ROOT / "tests/kernels/include/ptx").glob("*") if p.is_file())
    for path in (ROOT / "kernels" / "include" / "ptx").glob("*.cuh"):
        functions = re.findall(r"__device__[^;{(]*?\b(\w+)\s*\(", path.read_text())
        assert functions, f"{relative(path)} declares no __device__ function"
        for function in functions:
            assert re.search(rf"\b{function}\b", tests), (
                f"no test below tests/kernels/include/ptx names {function} of {relative(path)}"
            )


# --- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", tables(), ids=lambda table: table.name)
def test_units_in_column_names_are_the_units_of_the_schema(table):
    for column in table.columns:
        if (table.name, column.name) in UNITS_ELSEWHERE:
            continue
        ending = next((e for e in contracts.UNIT_SUFFIXES if column.name.endswith(e)), "")
        told = contracts.UNIT_SUFFIXES.get(ending, "")
        assert column.unit == told, (
            f"column {column.name!r} of table {table.name} has the unit {column.unit!r}, but its name says {told!r}"
        )
        assert ending or not re.search(r"_(percent|pct|us|ns|s|sec|seconds|[kmg]i?b|gbps|tflops|ghz)$", column.name), (
            f"column {column.name!r} of table {table.name}: there is one unit per quantity, "
            f"{', '.join(contracts.UNIT_SUFFIXES.values())}"
        )


def test_no_drawers():
    for path in project_files():
        names = {part.split(".")[0].strip("_") for part in path.relative_to(ROOT).parts}
        drawer = names & {"utils", "util", "helpers", "helper", "common", "misc"}
        assert not drawer, f"{relative(path)}: the name {drawer.pop()!r} says nothing; name what it does"


def test_no_local_paths():
    pattern = re.compile(r"(?<![\w.])/(?:work|home|root|Users|mnt|data)/\w[\w/.-]*")
    for path in project_files():
        if path.suffix in TEXT:
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                match = pattern.search(line)
                assert not match, f"{relative(path)}:{number} names {match[0]!r}, a path of one machine"


# --- the folder is the registry -------------------------------------------------------------------------------------


def test_a_kernel_a_format_a_suite_and_a_device_are_listed_nowhere():
    """Adding one changes only its own file, so no other file may name it."""
    # A format names its packer, so packers are not listed here.
    units = {head.path.stem: head.path for head in registry().values() if head.study not in SERVING}
    units |= {name: PACKAGE / "formats" / f"{name}.py" for name in FORMATS}
    units |= {path.stem: path for path in (ROOT / "config").glob("*/*.yaml")}
    for path in [*PACKAGE.rglob("*.py"), *WORKFLOW.rglob("*.smk"), WORKFLOW / "Snakefile"]:
        if path == PACKAGE / "kernels" / "choose.py":
            continue  # the one module that chooses the kernel for a case
        if path.suffix == ".py":
            words = {node.value for node in nodes(path, ast.Constant) if isinstance(node.value, str)}
        else:
            words = set(re.findall(r"""["']([a-z0-9_-]+)["']""", path.read_text()))
        listed = {
            word for word in words & units.keys() - MENTIONED.keys() - {*STAGES, *studies()} if units[word] != path
        }
        assert not listed, f"{relative(path)} names {min(listed)!r}; it must be found through its folder"


FIGURES = [path for path in sorted((PACKAGE / "figures").glob("*.py")) if "\ndef draw(" in path.read_text()]


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.stem)
def test_each_figure_has_title_and_caption_and_is_imported_by_nobody(path):
    title, _, caption = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")
    assert title and caption.strip(), f"the docstring of {relative(path)} is not a title and a caption"
    for other in PACKAGE.rglob("*.py"):
        for node in nodes(other, ast.ImportFrom):
            names = {(node.module or "").rpartition(".")[2]} | {alias.name for alias in node.names}
            of_figures = "figures" in (node.module or "") or (node.level == 1 and other.parent == path.parent)
            assert not (of_figures and path.stem in names), (
                f"{relative(other)}:{node.lineno} imports the figure {path.stem!r}, which its folder registers"
            )


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_has_its_test(name):
    tests = "\n".join(path.read_text() for path in (ROOT / "tests" / "formats").glob("test_*.py"))
    assert re.search(rf"\b{name}\b", tests) or "FORMATS" in tests, f"no test below tests/formats covers {name}"
    assert FORMATS[name].name == name, f"formats/{name}.py defines the format {FORMATS[name].name!r}"


@pytest.mark.parametrize("path", sorted((ROOT / "config" / "devices").glob("*.yaml")), ids=lambda path: path.stem)
def test_each_device_is_valid_and_named_as_its_file(path):
    device = contracts.document(path, "device")
    assert device["name"] == path.stem, f"{relative(path)} has the name {device['name']!r}, not that of its file"


@pytest.mark.parametrize("path", sorted((ROOT / "config" / "suites").glob("*.yaml")), ids=lambda path: path.stem)
def test_each_suite_names_what_exists_or_what_a_study_will_bring(path):
    suite = contracts.document(path, "suite")
    config = contracts.document(ROOT / "config" / "config.yaml", "config")
    assert suite["name"] == path.stem, f"{relative(path)} has the name {suite['name']!r}, not that of its file"
    entries = suite["matrices"].get("suitesparse", [])
    named = [entry for entry in entries if "query" not in entry]  # a query needs the network
    sources = {**suite["matrices"], "suitesparse": named} if entries else suite["matrices"]
    specs = matrices.expand({**suite, "matrices": sources}, config)
    assert specs or len(named) < len(entries), f"{relative(path)} names no matrix"
    _, missing = resolve(suite["kernels"], registry())
    for pattern in missing:
        assert pattern.split("/")[0] in studies(), f"{relative(path)}: {pattern!r} matches no kernel and names no study"
    # `tcgnn/*` of a planned study is fine; `smat/mma_bd` of a study that has kernels is a typo.
    built = {head.study for head in registry().values()}
    slips = [pattern for pattern in missing if pattern.split("/")[0] in built]
    assert not slips, f"{relative(path)}: {slips[0]!r} matches no kernel although its study has kernels"


def test_the_default_run_names_suites_that_exist():
    config = contracts.document(ROOT / "config" / "config.yaml", "config")
    for suite in {*config["measure"]["suites"], *config["profile"]["suites"]}:
        assert (ROOT / "config" / "suites" / f"{suite}.yaml").is_file(), f"config.yaml names the suite {suite!r}"


def test_the_compilations_that_ship_are_those_of_the_kernels_of_today():
    """A report compiles what is not among them, so that a first one would take longer with every change."""
    shipped = contracts.read(ROOT / paths.COMPILED, "kernels")
    now = {name: head.sha256() for name, head in registry().items() if not head.vendor}
    assert set(shipped["kernel"]) == set(now)
    changed = sorted(set(shipped.loc[shipped["kernel_sha256"] != shipped["kernel"].map(now), "kernel"]))
    assert not changed, f"{changed} changed: `snakemake --cores 4 record_kernels` compiles them for {paths.COMPILED}"
