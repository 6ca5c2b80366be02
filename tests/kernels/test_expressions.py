"""The small language of launches."""

from pathlib import Path

import pytest

from spmm_roofline.kernels import expressions
from spmm_roofline.kernels.expressions import ExpressionError, check_numbers, evaluate, namespace, normal, split


def test_commas_separate_outside_parentheses_alone():
    assert split("ceil_div(n, 8), m") == ["ceil_div(n, 8)", "m"]
    assert split("") == []
    assert normal("ceil_div( n,8 ),m") == "ceil_div(n, 8), m"


def test_values_of_names_functions_and_attributes():
    names = {"n": 33, "m": 5, "tile": namespace(n=8), "a": namespace(block_rows=7)}
    assert evaluate("ceil_div(n, tile.n), a.block_rows, max(m, 2) * 4", names) == [5, 7, 20]
    assert evaluate("even_part(8, 3), even_part(8, 5), even_part(8, 9), even_part(8, 0)", names) == [3, 4, 8, 1]


@pytest.mark.parametrize(
    ("m", "n", "nnz", "threads", "lanes"),
    [
        (100_000, 4, 300_000, 0, 1),  # three entries, one lane
        (100_000, 5, 300_000, 0, 2),  # two lanes have eight columns
        (100_000, 8, 1_400_000, 0, 16),  # 14 entries, five of them sets of three: eight sets of two lanes
        (100_000, 8, 30_000_000, 0, 32),
        (100_000, 1000, 300_000, 0, 32),
        (1_000, 4, 3_000, 8 * 1_000, 8),  # eight lanes a row are 8,000 threads
        (1_000, 4, 3_000, 8 * 1_000 - 1, 4),
        (1_000, 4, 30_000, 8 * 1_000, 16),  # 30 entries are ten sets of three
        (0, 4, 0, 1, 1),
    ],
)
def test_a_row_gets_lanes_for_its_columns_and_its_entries(m, n, nnz, threads, lanes):
    assert expressions.lanes_of_row(m, n, nnz, columns=4, share=3, threads=threads) == lanes


@pytest.mark.parametrize(
    ("m", "n", "nnz", "groups"),
    [
        (1_000, 32, 100_000, 16),  # eight lanes have the columns, and a CTA sixteen such groups
        (1_000, 128, 100_000, 4),
        (1_000, 512, 100_000, 1),  # four slabs: 128,000 lanes without sharing
        (1_000, 32, 47_000, 4),  # 47 entries leave six for each of seven groups
        (8_000, 32, 800_000, 2),
        (1_000_000, 32, 100_000_000, 1),
        (0, 32, 0, 1),
    ],
)
def test_groups_share_a_row_while_the_device_has_room(m, n, nnz, groups):
    assert expressions.groups_of_row(m, n, nnz, columns=4, most=32, threads=128, ctas=1056) == groups


@pytest.mark.parametrize("text", ["n.__class__", "open('x')", "n / 0", "unknown"])
def test_what_does_not_evaluate_is_named(text):
    with pytest.raises(ExpressionError, match="does not evaluate"):
        evaluate(text, {"n": 1})


def test_factors_are_passed_alone():
    known = {"alpha", "beta", "n"}
    check_numbers("alpha, beta", known, whole=False)
    with pytest.raises(ExpressionError, match="pass it alone"):
        check_numbers("2 * alpha", known, whole=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k + 1", "unknown name 'k'"),
        ("rows(n)", "unknown function 'rows'"),
        ("a.data", "is an array"),
        ("n / 2", "must be a whole number"),
        ("'n'", "is no number"),
    ],
)
def test_a_number_is_made_of_known_numbers(text, message):
    with pytest.raises(ExpressionError, match=message):
        check_numbers(text, {"n"}, {"a.data"})


def test_what_programs_import_parses_python_in_one_place():
    # Two threads must not do so at a time; see `syntax_tree`.
    folders = (Path(expressions.__file__).parents[1] / name for name in ("kernels", "formats", "multiply"))
    parsing = [path.name for folder in folders for path in folder.rglob("*.py") if "ast.parse(" in path.read_text()]
    assert parsing == ["expressions.py"]
