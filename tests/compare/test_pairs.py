"""Which rows of two runs are paired, what is said of the others, and which kernels count as unchanged."""

import pytest

from spmm_roofline.compare import CompareError
from spmm_roofline.compare.pairs import pair
from spmm_roofline.compare.sides import Side
from tests.compare.runs import edit, run

SMALL = {"kernels": 4, "matrices": 3}
ALL = 4 * 3 * 2


def small(seed, **kinds):
    return run(seed, **SMALL, **kinds)


def reasons(paired):
    return {each.reason: each.cases for each in paired.unpaired}


def test_equal_cases_are_paired_in_any_order():
    a, b = small(0), small(1)
    shuffled = Side("b", b.rows.sample(frac=1, random_state=0, ignore_index=True))
    cases = pair(a, shuffled).cases
    assert len(cases) == ALL and not pair(a, shuffled).unpaired
    merged = a.rows.merge(b.rows, on=["kernel", "matrix", "n"], suffixes=("_a", "_b"))
    expected = {(r.kernel, r.matrix, r.n): (r.time_ms_a, r.time_ms_b) for r in merged.itertuples()}
    found = {(r.kernel, r.matrix, r.n): (r.time_a_ms, r.time_b_ms) for r in cases.itertuples()}
    assert found == expected


@pytest.mark.parametrize(
    "values, reason",
    [
        ({"matrix_sha256": "other"}, "another structure of the matrix"),
        ({"protocol": 2}, "another timing protocol"),
        ({"dtype_accumulator": "float16"}, "other dtypes"),
        ({"status": "timeout"}, "ok in A, timeout in B"),
    ],
)
def test_what_cannot_be_compared_is_counted_by_reason(values, reason):
    a, b = small(0), small(1)
    paired = pair(a, edit(b, (b.rows["kernel"] == "k1") & (b.rows["n"] == 32), **values))
    assert reasons(paired) == {reason: 3} and len(paired.cases) == ALL - 3
    assert paired.unpaired[0].kernels == ("k1",) and paired.unpaired[0].lost == ("status" in values)


def test_what_only_one_side_measured_is_counted():
    a, b = small(0), small(1)
    a, b = (
        Side(side.name, side.rows[side.rows["kernel"] != gone].reset_index(drop=True))
        for side, gone in ((a, "k0"), (b, "k3"))
    )
    assert reasons(pair(a, b)) == {"only in A": 6, "only in B": 6}


def test_one_measurement_on_both_sides_tells_nothing():
    a = small(0)
    paired = pair(a, a)
    assert paired.cases.empty and reasons(paired) == {"one measurement on both sides": ALL}


def test_patterns_choose_what_is_asked_and_leave_controls():
    a, b = small(0), small(1)
    for pattern, kernels in (("k[12]", {"k1", "k2"}), ("t/k3", {"k3"}), ("*", {"k0", "k1", "k2", "k3"})):
        cases = pair(a, b, kernel=pattern).cases
        assert len(cases) == ALL and set(cases.loc[cases["asked"], "kernel"]) == kernels
    with pytest.raises(CompareError, match=r"no kernel matches 'x\*'; it has k0, k1, k2, k3"):
        pair(a, b, kernel="x*")
    with pytest.raises(CompareError, match="no suite matches 'other'; it has s"):
        pair(a, b, suite="other")


def test_two_kernels_are_matched_within_one_run():
    a = edit(small(0), lambda rows: rows["kernel"] == "k2", dtype_accumulator="float16")
    cases = pair(a, a, match=("k0", "k2")).cases
    assert len(cases) == 6 and cases["asked"].all() and not cases["same_code"].any()
    assert set(zip(cases["kernel"], cases["kernel_b"], strict=True)) == {("k0", "k2")}
    with pytest.raises(CompareError, match="B has no row of the kernel 'k9'"):
        pair(a, a, match=("k0", "k9"))


def test_devices_are_paired_on_purpose_only():
    a, b = small(0), small(1)
    b = edit(b, b.rows.index >= 0, device="h100")
    assert pair(a, b).cases.empty
    cases = pair(a, b, across_devices=True).cases
    assert len(cases) == ALL and set(cases["device_b"]) == {"h100"} and not cases["same_code"].any()
    two = edit(a, a.rows["kernel"] == "k1", device="h100")
    with pytest.raises(CompareError, match="holds rows of h100, h200; name a folder of one device"):
        pair(two, b, across_devices=True)


def test_across_suites_the_latest_row_of_a_case_counts():
    import pandas as pd

    a, old, new = small(0), small(1), small(2)
    old, new = (edit(side, side.rows.index >= 0, suite=suite) for side, suite in ((old, "u"), (new, "v")))
    b = Side("b", pd.concat([new.rows, old.rows], ignore_index=True))
    cases = pair(a, b, across_suites=True).cases
    assert len(cases) == ALL and set(cases["suite_b"]) == {"v"}


def test_equal_machine_code_of_other_sources_is_unchanged():
    a, b = small(0), small(1, edited=(1, 2))
    assert set(pair(a, b).cases.query("not same_code")["kernel"]) == {"k1", "k2"}

    def compiled(side, cubins):
        sources = dict(zip(side.rows["kernel"], side.rows["kernel_sha256"], strict=True))
        return Side(side.name, side.rows, {("sm_90a", sources[k]): ("launch", cubin) for k, cubin in cubins.items()})

    a = compiled(a, {"k0": "c0", "k1": "c1", "k2": "c2"})
    b = compiled(b, {"k0": "by another compiler", "k1": "c1", "k2": "other"})
    assert set(pair(a, b).cases.query("not same_code")["kernel"]) == {"k0", "k2"}


@pytest.mark.parametrize("values", [{"cuda": "13.2"}, {"packer_sha256": "other"}, {"arch": "sm_89"}])
def test_another_library_packer_or_architecture_is_a_change(values):
    a, b = small(0), small(1)
    changed = pair(a, edit(b, b.rows["kernel"] == "k1", **values)).cases.query("not same_code")
    assert set(changed["kernel"]) == {"k1"}
