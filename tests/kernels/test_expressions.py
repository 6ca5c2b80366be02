"""The small language of launches."""

import pytest

from spmm_roofline.kernels import heads
from spmm_roofline.kernels.expressions import (
    ExpressionError,
    check_condition,
    check_numbers,
    evaluate,
    is_array,
    namespace,
    normal,
    split,
)


def test_commas_separate_outside_parentheses_alone():
    assert split("ceil_div(n, 8), m") == ["ceil_div(n, 8)", "m"]
    assert split("") == []
    assert normal("ceil_div( n,8 ),m") == "ceil_div(n, 8), m"


def test_values_of_names_functions_and_attributes():
    names = {"n": 33, "m": 5, "tile": namespace(n=8), "a": namespace(block_rows=7)}
    assert evaluate("ceil_div(n, tile.n), a.block_rows, max(m, 2) * 4", names) == [5, 7, 20]
    assert evaluate("even_part(8, 3), even_part(8, 5), even_part(8, 9), even_part(8, 0)", names) == [3, 4, 8, 1]


@pytest.mark.parametrize("text", ["n.__class__", "open('x')", "n / 0", "unknown"])
def test_what_does_not_evaluate_is_named(text):
    with pytest.raises(ExpressionError, match="does not evaluate"):
        evaluate(text, {"n": 1})


def test_arrays_are_operands_and_fields_of_the_format():
    head = heads()["mma_bt"]
    assert [is_array(text, head) for text in ("b", "c", "a.data", "a.indptr", "a.blocks", "m")] == [True] * 4 + [
        False
    ] * 2


def test_factors_are_passed_as_they_are():
    head = heads()["rows_fma"]
    check_numbers("alpha, beta", head, whole=False)
    with pytest.raises(ExpressionError, match="passed as it is"):
        check_numbers("2 * alpha", head, whole=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nnz < 26 * usual.tiles", "unknown name 'usual.tiles'"),
        ("k > 8", "unknown name 'k'"),
        ("rows(m) > 8", "unknown function 'rows'"),
        ("n > 8, m > 8", "one condition"),
    ],
)
def test_a_condition_is_about_what_is_known_of_a_product(text, message):
    with pytest.raises(ExpressionError, match=message):
        check_condition(text)


def test_every_condition_of_a_kernel_tells_products_apart():
    for name, head in heads().items():
        check_condition(head.suits)
        names = {"device": namespace(multiprocessors=132), "m": 10_000, "longest": 30}
        cases = [
            {**names, "n": n, "nnz": nnz, "usual": namespace(blocks=blocks)}
            for n in (8, 128, 512)
            for blocks in (10**3, 10**5)
            for nnz in (10 * blocks, 100 * blocks)
        ]
        if head.suits:
            assert len({evaluate(head.suits, case)[0] for case in cases}) == 2, name
