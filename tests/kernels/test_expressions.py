"""The small language of launches."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spmm_roofline.formats.csr_binned import BEYOND, BINS
from spmm_roofline.kernels import expressions
from spmm_roofline.kernels.expressions import (
    ExpressionError,
    check_numbers,
    evaluate,
    namespace,
    normal,
    split,
    with_names,
)


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
    ("n", "most", "lanes"),
    [
        (8, 32, 4),
        (41, 32, 8),
        (300, 32, 32),
        (64, 8, 8),  # a strip of one line
        (72, 8, 16),  # two strips of eight lanes, and rows of 144 bytes do not begin at lines
        (128, 8, 8),  # rows of 256 bytes do
        (160, 8, 8),  # two strips of sixteen lanes would have lanes for 256 columns, three of eight have them for 192
        (200, 8, 16),
        (100, 16, 16),
    ],
)
def test_strips_of_two_lines_where_rows_do_not_begin_at_lines(n, most, lanes):
    assert expressions.lanes_of_group(n, columns=8, most=most) == lanes


@pytest.mark.parametrize(
    ("m", "n", "nnz", "share"),
    [
        (1_000, 32, 200_000, 8),  # 135,168 lanes have 17,000 groups of eight lanes, with 11.8 entries each
        (1_000, 128, 100_000, 16),  # 4,224 groups with 23.7 entries
        (1_000, 512, 100_000, 64),  # four slabs; 94.7 entries
        (1_000, 2048, 100_000, 96),  # an average row has fewer than 378
        (1_000, 32, 2_000, 6),
        (0, 32, 0, 6),
    ],
)
def test_shares_of_long_rows_fill_the_device(m, n, nnz, share):
    found = expressions.share_bin(m, n, nnz, columns=4, most=32, threads=1056 * 128)
    assert BINS[found] == share


@given(st.lists(st.integers(0, 3000), max_size=60), st.integers(4, 16), st.sampled_from([4, 8, 16, 32]))
def test_a_launch_has_the_groups_of_all_rows(lengths, share, most):
    longer = [sum(length >= least for length in lengths) for least in BINS] + [0] * BEYOND
    groups = [1 << max(length // BINS[share], 1).bit_length() - 1 for length in lengths]
    for count in (2, 4, 8, 16, 32):
        assert expressions.rows_of_groups(longer, share, count) == sum(own >= count for own in groups)
    assert expressions.groups_of_rows(len(lengths), longer, share, most) == sum(min(own, most) for own in groups)


def test_names_stand_for_expressions():
    names = {"lanes": "min(32, n)", "groups": "128 // lanes"}
    assert with_names("lanes, ceil_div(m * 2, groups)", names) == "min(32, n), ceil_div(m * 2, 128 // min(32, n))"
    assert with_names("m % groups", {"groups": "a.rows + 1"}) == "m % (a.rows + 1)"
    with pytest.raises(ExpressionError, match=r"'32 \+' is not an expression"):
        with_names("lanes", {"lanes": "32 +"})


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
