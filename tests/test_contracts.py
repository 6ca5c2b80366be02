"""The contracts between stages: what is rejected, with which message, and what a file preserves."""

import json
import math
import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from spmm_roofline import contracts, forked
from spmm_roofline.contracts import ContractError

TABLES, DOCUMENTS = contracts.names("tables"), contracts.names("documents")
#: Columns of table ``measure``.
#: Columns of table ``measure`` that every file has.
ALWAYS = [column.name for column in contracts.table("measure").columns if not column.optional]
WIDTH = len(ALWAYS)


def measured(**changes):
    """A row of the table measure, as a job writes it."""
    row = {
        **{column: "x" for column in ("device", "driver", "cuda", "suite", "study", "kernel", "format", "matrix")},
        **{f"dtype_{operand}": "float16" for operand in ("a", "b", "accumulator", "c")},
        **{
            column: 1.5
            for column in ("time_ms", "time_p10_ms", "time_p90_ms", "replay_ms", "useful_gflops", "padded_gflops")
        },
        **{column: 0.0005 for column in ("rel_error", "max_row_error")},
        **{column: 16 for column in ("m", "k", "n", "nnz", "samples", "compulsory_bytes", "format_bytes")},
        **{"kernel_sha256": "12345e7", "matrix_sha256": "00012", "git_commit": "1e5", "measured_at": "2026-01-01"},
        **{"arch": "sm_90a", "l2": "cold", "protocol": 1, "status": "ok", "noisy": False},
        **changes,
    }
    return row


def failed(**changes):
    """A row of a case that was not timed."""
    timed = [column.name for column in contracts.table("measure").columns if column.when]
    return measured(**dict.fromkeys(timed), status="unsupported", message="n is no multiple of 8") | changes


def refusal(rows, name="measure"):
    with pytest.raises(ContractError) as caught:
        contracts.frame(rows, name)
    return str(caught.value)


# --- the schemas themselves -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_a_table_schema_is_sound(name):
    table = contracts.table(name)
    assert table.name == name, f"the file {name}.yaml describes a table {table.name!r}"
    assert len(set(table.names)) == len(table.names), f"table {name} has a column twice"
    assert set(table.key) <= set(table.names), f"the key {table.key} of table {name} names a column that is not there"
    for column in table.columns:
        where = f"column {column.name!r} of table {name}"
        assert column.type in contracts.DTYPES, f"{where} has the unknown type {column.type!r}"
        assert column.description, f"{where} has no description"
        assert {other for other, _ in column.when} <= set(table.names), f"{where}: `when` names an unknown column"
        assert not (column.name in table.key and column.when), f"{where} is part of the key and cannot be empty"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_schema_is_sound(name):
    schema = yaml.safe_load((contracts.SCHEMAS / "documents" / f"{name}.yaml").read_text())
    Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False, f"document {name} accepts keys that it does not describe"
    assert set(schema["required"]) <= schema["properties"].keys()


def test_a_contract_that_does_not_exist_is_named_with_those_that_do():
    with pytest.raises(ContractError, match=r"no table is called 'times'; the tables are .*measure"):
        contracts.table("times")
    with pytest.raises(ContractError, match=r"no document is called 'times'; the documents are .*suite"):
        contracts.validate({}, "times")


def test_files_without_rows_are_read_together(tmp_path):
    for name in ("a", "b"):
        contracts.write(contracts.frame([], "measure"), tmp_path / f"{name}.csv", "measure")
    assert len(contracts.read_all(sorted(tmp_path.glob("*.csv")), "measure")) == 0


@pytest.mark.parametrize(
    "text",
    ["name: !!python/object/apply:os.getcwd []", "name: !!python/name:os.system", "!!python/module:os {}"],
)
def test_yaml_that_would_make_objects_is_refused(tmp_path, text):
    path = tmp_path / "suite.yaml"
    path.write_text(text + "\n")
    with pytest.raises(ContractError, match=r"suite.yaml: not readable: line 1: could not determine a constructor"):
        contracts.document(path, "suite")


ROW_CHANGES = [
    {},
    {"time_ms": None},
    {"time_ms": -1.0},
    {"time_ms": "fast"},
    {"time_ms": float("nan")},
    {"time_ms": float("inf")},
    {"time_ms": True},
    {"n": 0},
    {"n": 8.5},
    {"n": "8"},
    {"n": True},
    {"n": 2**70},
    {"matrix": ""},
    {"matrix": None},
    {"matrix": 3},
    {"matrix": 3.0},
    {"l2": "lukewarm"},
    {"status": "wrong"},
    {"status": "wrong", "message": "why", "noisy": None, "samples": None},
    {"noisy": "true"},
    {"noisy": 1},
    {"message": None},
    {"colour": "red"},
]


@pytest.mark.parametrize("changes", ROW_CHANGES, ids=str)
def test_one_row_is_checked_as_a_table_is(tmp_path, changes):
    """`write_row` repeats the checks of `frame` without importing pandas: the two must agree."""
    row = measured() | changes
    path = tmp_path / "row.json"

    def said(action):
        try:
            return action()
        except ContractError as error:
            return str(error)

    table = said(lambda: contracts.frame([row], "measure", lambda _: str(path)))
    alone = said(lambda: contracts.write_row(row, path, "measure"))
    if isinstance(table, str):
        assert alone == table and not path.exists()
    else:
        assert alone is None
        assert contracts.read_rows([path], "measure").equals(table)


def test_one_row_is_written_without_pandas(tmp_path):
    program = (
        "import json, sys; from spmm_roofline import contracts; "
        "contracts.write_row(json.loads(sys.argv[1]), sys.argv[2], 'measure'); "
        "assert 'pandas' not in sys.modules and 'numpy' not in sys.modules"
    )
    arguments = [json.dumps(measured()), str(tmp_path / "row.json")]
    package = {"PYTHONPATH": str(Path(contracts.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, env=os.environ | package)


# --- types ----------------------------------------------------------------------------------------------------------


def test_types_come_from_the_schema_and_not_from_the_looks_of_a_value(tmp_path):
    path = tmp_path / "measure.csv"
    names = ["NA", "null", "nan", "007", "1e5", "True", " padded ", 'quoted "a", b', "two\nlines", "Δ"]
    contracts.write(contracts.frame([measured(matrix=name) for name in names], "measure"), path, "measure")
    data = contracts.read(path, "measure")
    assert data["matrix"].tolist() == names
    assert data["kernel_sha256"].unique().tolist() == ["12345e7"]
    assert data["matrix_sha256"].unique().tolist() == ["00012"]
    assert [str(data[column].dtype) for column in ("matrix", "n", "time_ms", "noisy")] == [
        *("string", "Int64", "float64", "boolean")
    ]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("n", value) for value in (1.5, "1.5", "12345e7", "many", True, 2**63, math.inf, [1])),
        *(("time_ms", value) for value in ("fast", math.inf, "inf", "nan", True)),
        *(("noisy", value) for value in (1, "yes")),
        *(("driver", value) for value in (580.1, True)),
    ],
)
def test_a_value_of_another_type_is_refused(column, value):
    message = refusal([measured(), measured(**{column: value})])
    kind = next(c.type for c in contracts.table("measure").columns if c.name == column)
    assert message == f"rows: row 3, column {column!r}: {value!r} is not of type {kind}"


@pytest.mark.parametrize(
    ("column", "given", "kept"),
    [
        *(("n", given, 128) for given in (128, 128.0, "128", np.int32(128), np.float64(128))),
        *(("time_ms", given, 2.0) for given in (2, "2", "2.0", np.float32(2))),
        *(("noisy", given, True) for given in (True, "True", "true", np.bool_(True))),
        *(("message", given, "") for given in (None, "", math.nan, pd.NA)),
        *(("preprocess_ms", given, None) for given in (None, "", math.nan, np.float32("nan"), pd.NA)),
        *(("sm_clock_mhz", given, None) for given in (None, "", math.nan, pd.NA)),
        ("matrix", Path("a/b.mtx"), "a/b.mtx"),
    ],
)
def test_a_value_takes_the_type_of_its_column(column, given, kept):
    value = contracts.frame([measured(**{column: given})], "measure")[column].iloc[0]
    assert pd.isna(value) if kept is None else value == kept


def test_a_whole_number_that_passed_through_a_float_column_stays_whole(tmp_path):
    """A merge in pandas turns integers with gaps into floats; %.9g would truncate them."""
    data = contracts.frame([measured(), measured(matrix="y", format_bytes=None)], "measure")
    data["format_bytes"] = pd.Series([123456789012.0, math.nan])
    contracts.write(data, tmp_path / "measure.csv", "measure")
    read = contracts.read(tmp_path / "measure.csv", "measure")["format_bytes"]
    assert read.iloc[0] == 123456789012
    assert pd.isna(read.iloc[1])


# --- columns, keys and values ---------------------------------------------------------------------------------------


def test_an_unknown_column_is_refused():
    assert refusal([measured(), measured(speed=1)]).startswith("rows: row 3: unknown column 'speed' in table measure")


def test_a_file_with_an_unknown_missing_or_repeated_column_is_refused(tmp_path):
    path = tmp_path / "measure.csv"
    contracts.write(contracts.frame([measured()], "measure"), path, "measure")
    text = path.read_text()
    for old, new, message in [
        (",time_ms,", ",time,", "unknown column 'time'; table measure has device, "),
        (",useful_gflops", "", "column 'useful_gflops' of table measure is missing"),
        (",time_p10_ms", ",time_ms", "column 'time_ms' of table measure appears more than once"),
    ]:
        path.write_text(text.replace(old, new))
        with pytest.raises(ContractError) as caught:
            contracts.read(path, "measure")
        assert str(caught.value).startswith(f"{path}: {message}")


def test_a_duplicate_key_is_refused_with_its_row():
    rows = [measured(), measured(n=32), measured(time_ms=2)]
    assert refusal(rows) == "rows: row 4 repeats the key device=x, suite=x, kernel=x, matrix=x, n=16, l2=cold"


def test_a_duplicate_key_across_files_is_refused_with_the_second_file(tmp_path):
    paths = [tmp_path / name for name in ("a.csv", "b.csv", "c.csv")]
    for path, rows in zip(paths, [[measured()], [], [measured(n=32), measured()]], strict=True):
        contracts.write(contracts.frame(rows, "measure"), path, "measure")
    with pytest.raises(ContractError, match="repeats the key") as caught:
        contracts.read_all(paths, "measure")
    assert str(caught.value).startswith(f"{paths[2]}: row 3 ")
    assert len(contracts.read_all(paths[:2], "measure")) == 1
    assert contracts.read_all([], "measure").columns.tolist() == contracts.table("measure").names


@pytest.mark.parametrize("status", ["wrong", "unsupported", "launch_failed", "out_of_memory", "timeout"])
def test_a_time_is_refused_unless_the_result_was_right(status):
    assert contracts.frame([failed(status=status)], "measure")["time_ms"].isna().all()
    message = refusal([failed(status=status, time_ms=1.0)])
    assert message == "rows: row 2, column 'time_ms' may be filled only where status is ok (value 1.0)"


def test_a_time_is_demanded_where_the_result_was_right():
    assert "column 'time_ms' is empty although status is ok" in refusal([measured(time_ms=None)])


def test_a_nullable_column_with_a_condition_may_be_empty_but_not_filled_elsewhere():
    column = [c for c in contracts.table("analysis_cases").columns if c.nullable and c.when][-1]
    row = {c.name: measured().get(c.name) for c in contracts.table("analysis_cases").columns}
    row |= {"origin": "local", "stale": False, "kind": "mesh", "precision": "float16"}
    row |= {"intensity_flop_per_byte": 1.0, "steps": 1}
    assert contracts.frame([row], "analysis_cases")[column.name].isna().all()
    off = {c.name: None for c in contracts.table("analysis_cases").columns if c.when} | {"status": "wrong"}
    assert f"column {column.name!r} may be filled only where status is ok" in refusal(
        [row | off | {column.name: 1.0}], "analysis_cases"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (failed(status="fine"), "column 'status' is not one of ok, wrong, "),
        ({"l2": "lukewarm"}, "column 'l2' is not one of cold, warm (value 'lukewarm')"),
        ({"n": 0}, "column 'n' is below 1 (value 0)"),
        ({"time_ms": -0.5}, "column 'time_ms' is below 0 (value -0.5)"),
        ({"matrix": ""}, "column 'matrix' is empty"),
        ({"nnz": None}, "column 'nnz' is empty"),
    ],
)
def test_a_value_outside_its_range_is_refused(changes, message):
    assert f"rows: row 2, {message}" in refusal([measured(**changes)])


def test_a_fraction_above_one_is_refused():
    row = {"format": "csr", "matrix": "a", "matrix_sha256": "0", "dtype": "float16", "status": "ok", "round_trip": True}
    row |= dict.fromkeys(
        ["format_bytes", "stored_slots", "covered_slots", "blocks", "bytes_per_nnz", "expansion_over_csr"], 1
    )
    row |= {"build_ms": 1, "fill_fraction": 1.25}
    assert "column 'fill_fraction' is above 1 (value 1.25)" in refusal([row], "formats")


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: "", "the file is empty"),
        (lambda text: text[: len(text) * 3 // 4], rf"row 2 has \d+ fields where table measure has {WIDTH}"),
        (
            lambda text: text.replace("\n", ",extra\n").replace(",extra", "", 1),
            f"row 2 has {WIDTH + 1} fields where table measure has {WIDTH}",
        ),
        (lambda text: text.replace(",cold,", ',"cold,'), "not a readable CSV"),
        (lambda text: text + "\n", "row 3 has 0 fields"),
    ],
    ids=["empty", "cut", "long-line", "open-quote", "blank-line"],
)
def test_a_damaged_file_is_refused_by_name(tmp_path, damage, message):
    path = tmp_path / "measure.csv"
    contracts.write(contracts.frame([measured()], "measure"), path, "measure")
    path.write_text(damage(path.read_text()))
    with pytest.raises(ContractError, match=message) as caught:
        contracts.read(path, "measure")
    assert str(path) in str(caught.value)


def test_a_file_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "measure.csv").write_bytes(b"device,\xff\n")
    with pytest.raises(ContractError, match="not a readable CSV of table measure"):
        contracts.read(tmp_path / "measure.csv", "measure")


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        contracts.read(tmp_path / "none.csv", "measure")


def test_a_refused_table_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "measure.csv"
    data = contracts.frame([measured()], "measure")
    contracts.write(data, path, "measure")
    before = path.read_bytes()
    with pytest.raises(ContractError, match="is below 0"):
        contracts.write(data.assign(time_ms=-1.0), path, "measure")
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_files_that_are_checked_together_are_written_as_each_alone(tmp_path):
    rows = [measured(kernel=kernel, n=n) for kernel in "ab" for n in (8, 16)]
    files = {tmp_path / "a.csv": rows[:2], tmp_path / "none.csv": [], tmp_path / "b.csv": [*rows[2:], failed(n=32)]}
    contracts.write_each(files, "measure")
    for path, own in files.items():
        contracts.write(contracts.frame(own, "measure"), tmp_path / "alone.csv", "measure")
        assert path.read_text() == (tmp_path / "alone.csv").read_text()
    files[tmp_path / "b.csv"][1]["n"] = -1
    before = [path.read_text() for path in files]
    with pytest.raises(ContractError, match=r"b\.csv: row 3, column 'n'"):
        contracts.write_each(files, "measure")
    assert [path.read_text() for path in files] == before


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "new" / "file.txt"
    contracts.write_text(path, "old\n")

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(contracts.os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        contracts.write_text(path, "new\n")
    assert path.read_text() == "old\n"
    assert [entry.name for entry in path.parent.iterdir()] == [path.name], "a fragment of the new file was left behind"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_columns_are_written_in_the_order_of_the_contract(tmp_path):
    data = contracts.frame([measured()], "measure")
    contracts.write(data[data.columns[::-1]], tmp_path / "measure.csv", "measure")
    assert (tmp_path / "measure.csv").read_text().split("\n")[0] == ",".join(ALWAYS)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


def values(column):
    """Valid values of a column, ignoring conditions."""
    if column.enum:
        return st.sampled_from(column.enum)
    low = column.minimum
    if column.type == "integer":
        return st.integers(-(2**63) if low is None else int(low), 2**63 - 1)
    if column.type == "number":
        return st.floats(low, column.maximum, allow_nan=False, allow_infinity=False)
    return st.booleans() if column.type == "boolean" else TEXTS.filter(lambda text: column.nullable or text)


@st.composite
def rows(draw, name):
    drawn = []
    for _ in range(draw(st.integers(0, 4))):
        row = {c.name: draw(st.none() | values(c) if c.nullable else values(c)) for c in contracts.table(name).columns}
        for column in contracts.table(name).columns:
            if any(row[other] != value for other, value in column.when):
                row[column.name] = None
        drawn.append(row)
    key = contracts.table(name).key
    return list({tuple(row[k] or "" for k in key): row for row in drawn}.values())


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["formats", "kernels", "profile", "analysis_ceilings", "analysis_status"]), st.data())
def test_what_is_written_is_read(tmp_path_factory, name, data):
    path = tmp_path_factory.mktemp("table") / "table.csv"
    try:
        given_rows = contracts.frame(data.draw(rows(name)), name)
        contracts.write(given_rows, path, name)
    except ContractError as error:  # keys that differ only in line ends or blanks
        assert "repeats the key" in str(error)
        return
    read = contracts.read(path, name)
    expected = given_rows.copy()
    for column in expected.select_dtypes("string"):
        expected[column] = expected[column].str.replace(r"\r\n?", "\n", regex=True)
    pd.testing.assert_frame_equal(read, expected, rtol=1e-8, atol=0)
    before = path.read_bytes()
    contracts.write(read, path, name)
    assert path.read_bytes() == before, "writing what was read changed the file"


# --- rows as JSON ---------------------------------------------------------------------------------------------------


def test_a_row_survives_its_json_file(tmp_path):
    paths = [tmp_path / f"{name}.json" for name in ("NA", "b")]
    contracts.write_row(measured(matrix="NA", n=np.int64(8), time_ms=np.float64(1.25)), paths[0], "measure")
    contracts.write_row(failed(matrix="b", preprocess_ms=math.nan), paths[1], "measure")
    data = contracts.read_rows(paths, "measure")
    assert data["matrix"].tolist() == ["NA", "b"]
    assert data["time_ms"].iloc[0] == 1.25
    assert json.loads(paths[1].read_text())["preprocess_ms"] is None, "JSON has no NaN"
    assert list(json.loads(paths[0].read_text())) == contracts.table("measure").names


def test_a_row_that_breaks_its_contract_is_named_by_its_file(tmp_path):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    contracts.write_row(measured(), good, "measure")
    for content, message in [
        ('{"device": ', "not a readable row of table measure"),
        ("[1]", "a row of table measure is a mapping of columns, not list"),
        (json.dumps(measured(n="8 or 16")), "column 'n': '8 or 16' is not of type integer"),
        (json.dumps(measured(l2="hot")), "column 'l2' is not one of cold, warm"),
        (json.dumps(measured(speed=1)), "unknown column 'speed'"),
        (good.read_text(), "repeats the key"),
    ]:
        bad.write_text(content)
        with pytest.raises(ContractError) as caught:
            contracts.read_rows([good, bad], "measure")
        assert str(caught.value).startswith(str(bad)), f"{caught.value} does not begin with the file's name"
        assert message in str(caught.value)
    with pytest.raises(ContractError, match=r"new\.json.*is below 1"):
        contracts.write_row(measured(n=0), tmp_path / "new.json", "measure")
    assert not (tmp_path / "new.json").exists()


# --- documents ------------------------------------------------------------------------------------------------------

SUITE = """\
name: mine
title: My matrices
matrices: {file: [{path: a.mtx}]}
n: [128]
kernels: [smat/*]
protocol: {l2: cold}
"""


def test_a_document_is_read(tmp_path):
    (tmp_path / "mine.yaml").write_text(SUITE)
    assert contracts.document(tmp_path / "mine.yaml", "suite")["n"] == [128]
    (tmp_path / "mine.json").write_text(json.dumps(yaml.safe_load(SUITE)))
    assert contracts.document(tmp_path / "mine.json", "suite")["protocol"] == {"l2": "cold"}


def test_a_document_may_merge_what_it_named(tmp_path):
    text = SUITE.replace("protocol: {l2: cold}", "protocol: {<<: &warm {l2: warm}}")
    (tmp_path / "mine.yaml").write_text(text)
    assert text != SUITE and contracts.document(tmp_path / "mine.yaml", "suite")["protocol"] == {"l2": "warm"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("l2: cold", "l2: hot", "protocol.l2: 'hot' is not one of ['cold', 'warm']"),
        ("[128]", "[128, 0]", "n.1: 0 is less than the minimum of 1"),
        (
            "title",
            "tittle",
            "top level: Additional properties are not allowed ('tittle' was unexpected); did you mean 'title'? ",
        ),
        ("n: [128]\n", "", "top level: 'n' is a required property"),
        ("path: a.mtx", "name: a", "matrices.file.0: 'path' is a required property"),
        ("n: [128]", "n: [128]\nn: [256]", "not readable: line 5: the key 'n' stands twice"),
        (
            "n: [128]",
            "n: [128",
            "not readable: line 5: did not find expected ',' or ']', while parsing a flow sequence that begins in",
        ),
        (SUITE, "", "top level: None is not of type 'object'"),
    ],
)
def test_a_broken_document_is_refused_with_file_and_place(tmp_path, old, new, message):
    path = tmp_path / "mine.yaml"
    path.write_text(SUITE.replace(old, new))
    with pytest.raises(ContractError) as caught:
        contracts.document(path, "suite")
    assert f"{path}: {message}" in str(caught.value)


def test_the_nearest_alternative_says_what_is_wrong(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(SUITE.replace("{file: [{path: a.mtx}]}", "{suitesparse: [{name: bcsstk32}]}"))
    with pytest.raises(ContractError, match=r"suitesparse\.0\.name: 'bcsstk32' does not match"):
        contracts.document(path, "suite")


def test_a_document_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "mine.yaml").write_bytes(b"name: \xff")
    with pytest.raises(ContractError, match=r"mine\.yaml: not readable"):
        contracts.document(tmp_path / "mine.yaml", "suite")


def test_no_rows_are_an_empty_table():
    assert contracts.read_rows([], "matrices").empty
    assert list(contracts.read_rows([], "matrices").columns) == contracts.table("matrices").names


def test_numbers_that_came_as_text_become_numbers():
    given = {"measure": {"device": "auto", "shard": "8", "time_cap_ms": "1.5"}, "kernels": {"lineinfo": "false"}}
    found = contracts.with_numbers(given, "config")
    assert found == {"measure": {"device": "auto", "shard": 8, "time_cap_ms": 1.5}, "kernels": {"lineinfo": False}}


NOT_A_ROW = [b"", b'{"matrix": ', b"[1]", b"\xff\xfe"]


@pytest.mark.parametrize("content", NOT_A_ROW)
def test_a_damaged_row_is_named_and_left_where_it_is(tmp_path, content):
    path = tmp_path / "results" / "a.json"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(contracts.Damaged) as caught:
        contracts.read_row(path, "matrices")
    assert caught.value.paths == [str(path)] and str(caught.value).startswith(f"{path}: ")
    assert path.read_bytes() == content


def test_all_damaged_files_are_named_at_once(tmp_path):
    tables = [tmp_path / f"{name}.csv" for name in "abcd"]
    for path in tables:
        contracts.write(contracts.frame([], "profile"), path, "profile")
    tables[1].write_text("")
    tables[3].write_bytes(tables[3].read_bytes() + b"1,2\n")
    with pytest.raises(contracts.Damaged) as caught:
        contracts.read_all(tables, "profile")
    assert caught.value.paths == [str(tables[1]), str(tables[3])]
    rows = [tmp_path / f"{i}.json" for i in range(len(NOT_A_ROW))]
    for path, content in zip(rows, NOT_A_ROW, strict=True):
        path.write_bytes(content)
    for read in (contracts.read_each, contracts.read_rows):
        with pytest.raises(contracts.Damaged) as caught:
            read(rows, "matrices")
        assert caught.value.paths == [str(path) for path in rows]
    # The error of a child process arrives complete.
    assert pickle.loads(pickle.dumps(caught.value)).complaints == caught.value.complaints


def test_a_document_that_cannot_be_parsed_is_damaged_and_one_that_breaks_its_schema_is_not(tmp_path):
    (tmp_path / "mine.json").write_text(json.dumps(yaml.safe_load(SUITE))[:-5])
    with pytest.raises(contracts.Damaged, match=r"mine\.json: not readable"):
        contracts.document(tmp_path / "mine.json", "suite")
    (tmp_path / "mine.json").write_text("{}")
    with pytest.raises(ContractError) as caught:
        contracts.document(tmp_path / "mine.json", "suite")
    assert not isinstance(caught.value, contracts.Damaged)


# --- edges ----------------------------------------------------------------------------------------------------------


def performance(**changes):
    """A row of a table whose column has a minimum and a maximum."""
    row = {}
    for column in contracts.table("analysis_performance").columns:
        value = {"string": column.enum[0] if column.enum else "x", "integer": 4, "number": 1.0, "boolean": True}
        row[column.name] = value[column.type]
    return row | changes


@pytest.mark.parametrize(("value", "breach"), [(0.0, ""), (1.0, ""), (-1e-9, "is below 0"), (1.0000001, "is above 1")])
def test_limits_themselves_are_allowed_in_tables_and_rows(tmp_path, value, breach):
    row = performance(share_fraction=value)
    if not breach:
        assert contracts.frame([row], "analysis_performance").share_fraction.tolist() == [value]
        contracts.write_row(row, tmp_path / "row.json", "analysis_performance")
        return
    assert breach in refusal([row], "analysis_performance")
    with pytest.raises(ContractError, match=breach):
        contracts.write_row(row, tmp_path / "row.json", "analysis_performance")


@pytest.mark.parametrize(
    ("value", "right"), [(2**63 - 1, True), (2**63, False), (-(2**63), True), (-(2**63) - 1, False)]
)
def test_integers_have_64_bits(value, right):
    assert contracts._converts(contracts._integer, value) == right


def test_the_file_and_the_line_of_a_bad_row_are_named_wherever_it_is(tmp_path):
    counts = {tmp_path / "a.csv": 2, tmp_path / "b.csv": 0, tmp_path / "c.csv": 1, tmp_path / "d.csv": 3}
    paths = list(counts)
    for path, count in counts.items():
        rows = [measured(matrix=f"{path.stem}{i}") for i in range(count)]
        contracts.write(contracts.frame(rows, "measure"), path, "measure")
    for path, count in counts.items():
        for row in range(count):
            text = path.read_text()
            lines = text.splitlines(keepends=True)
            lines[row + 1] = lines[row + 1].replace("cold", "hot")
            path.write_text("".join(lines))
            with pytest.raises(ContractError) as caught:
                contracts.read_all(paths, "measure")
            assert str(caught.value).startswith(f"{path}: row {row + 2}, column 'l2'")
            path.write_text(text)


# --- large tables, which several processes read -----------------------------------------------------------------------


def read_in_parts(monkeypatch, least_bytes):
    """Let tables be read in parts of ``least_bytes``, whatever the machine."""
    monkeypatch.setattr(contracts, "LEAST_BYTES", least_bytes)
    monkeypatch.setattr(forked, "processors", lambda: 4)


@pytest.mark.parametrize("least_bytes", [1, 300, 900, 1 << 20])
def test_a_table_does_not_depend_on_the_parts_that_it_is_read_in(tmp_path, monkeypatch, least_bytes):
    messages = ["", "a\nb", 'so "it" is', "x, y", '"\n"', "NA"]
    sizes = (7, 0, 1, 12)
    for file, rows in enumerate(sizes):
        table = [failed(suite=f"s{file}", n=row + 1, message=messages[row % 6]) for row in range(rows)]
        table += [measured(suite=f"t{file}", n=row + 1, noisy=bool(row % 2), time_ms=row / 3) for row in range(rows)]
        contracts.write(contracts.frame(table, "measure"), tmp_path / f"{file}.csv", "measure")
    paths = sorted(tmp_path.glob("*.csv"))
    whole = contracts.read_all(paths, "measure")
    assert len(whole) == 2 * sum(sizes)
    read_in_parts(monkeypatch, least_bytes)
    for processes in (2, 3, 8):
        pd.testing.assert_frame_equal(contracts.read_all(paths, "measure", processes), whole)
    parts = contracts._divided(paths, 8)
    assert (len(parts) > 1) == (least_bytes < 1 << 20)
    assert len({path for part in parts for path, _ in part}) == len(sizes)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (",16,", ",many,", "row 2, column"),
        ("12345e7", '"12345e7', "not a readable CSV"),
        ("sm_90a", "sm_90a,", "row 2 has"),
        (",n,", ",width,", "unknown column 'width'"),
    ],
)
def test_what_is_wrong_is_said_alike_however_many_processes_read(tmp_path, monkeypatch, old, new, message):
    for file in "ab":
        rows = [measured(suite=file, n=row + 1) for row in range(9)]
        contracts.write(contracts.frame(rows, "measure"), tmp_path / f"{file}.csv", "measure")
    paths = sorted(tmp_path.glob("*.csv"))
    read_in_parts(monkeypatch, 200)
    assert len(contracts.read_all(paths, "measure", 4)) == 18
    paths[1].write_text(paths[1].read_text().replace(old, new, 1))
    said = []
    for processes in (1, 4):
        with pytest.raises(ContractError) as caught:
            contracts.read_all(paths, "measure", processes)
        said.append((type(caught.value), str(caught.value)))
    assert said[0] == said[1]
    assert message in said[0][1]
    assert "b.csv" in said[0][1]


def test_a_key_that_two_parts_have_is_refused(tmp_path, monkeypatch):
    rows = [measured(suite="a", n=row + 1) for row in range(20)]
    contracts.write(contracts.frame(rows, "measure"), tmp_path / "a.csv", "measure")
    lines = (tmp_path / "a.csv").read_text().splitlines()
    (tmp_path / "a.csv").write_text("\n".join([*lines, lines[1]]) + "\n")
    read_in_parts(monkeypatch, 200)
    with pytest.raises(ContractError, match=r"a.csv: row 22 repeats the key"):
        contracts.read(tmp_path / "a.csv", "measure", 4)
