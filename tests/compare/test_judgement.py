"""What is said of two runs whose truth is known: false alarms, power, intervals, exit codes."""

import math

import numpy as np
import pytest

from spmm_roofline.compare import CompareError, Options
from spmm_roofline.compare.spread import FREEDOM, estimate
from spmm_roofline.compare.verdicts import judge, rejected
from tests.compare.runs import edit, run

LOUD = {"slower", "faster"}
#: Noise of one run; two runs differ by √2 of it.
GAUSSIAN = {"noise": 0.015}
#: As recorded rows of an H200 scatter: long tails, and something that all cases of a kernel share.
LIKE_RECORDED = {"noise": 0.006, "tails": 2.5, "of_kernel": 0.003}


def verdicts(comparison):
    return {kernel.kernel: kernel.verdict for kernel in comparison.kernels}


def pairs_of_runs(count, kernels, **kinds):
    """Comparisons of independent pairs of runs; ``edited`` and ``factor`` apply to the new one."""
    edited = {name: kinds.pop(name) for name in ("edited", "factor", "shift") if name in kinds}
    options = kinds.pop("options", Options())
    for seed in range(count):
        yield judge(run(2 * seed, kernels, **kinds), run(2 * seed + 1, kernels, **kinds, **edited), options)


# --- false alarms and power -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [GAUSSIAN, LIKE_RECORDED], ids=["gaussian", "like recorded"])
def test_two_runs_of_one_code_show_no_difference(noise):
    """15 pairs of runs, 12 kernels, judged as with --all: at most 1 % of the 180 verdicts is loud."""
    loud = 0
    for comparison in pairs_of_runs(15, 12, shift=0.02, options=Options(unchanged=True), **noise):
        loud += sum(verdict in LOUD for verdict in verdicts(comparison).values())
        assert math.isclose(math.exp(comparison.spread.shift), 1.02, rel_tol=0.01)
    assert loud <= 1


@pytest.mark.parametrize("noise", [GAUSSIAN, LIKE_RECORDED], ids=["gaussian", "like recorded"])
def test_an_edit_that_changes_nothing_raises_no_alarm(noise):
    """15 pairs, three kernels of other code that is as fast: no alarm, where 0.15 are expected at most."""
    alarms = [c.exit_code() for c in pairs_of_runs(15, 12, edited=(2, 5, 7), **noise)]
    assert sum(alarms) == 0


@pytest.mark.parametrize("noise", [GAUSSIAN, LIKE_RECORDED], ids=["gaussian", "like recorded"])
def test_kernels_that_are_three_percent_off_are_found(noise):
    """2.1 % of noise a case between two runs, 13 matrices x 2 widths, one kernel 3 % slower and one 3 % faster, on a
    machine that is 2 % faster: found in 36 of 40 cases or more (power 0.97), never the wrong way round, and the
    interval holds the true ratio in 35 of 40 or more."""
    truth = {"k3": (1.03, "slower"), "k7": (1 / 1.03, "faster")}
    found = covered = 0
    for comparison in pairs_of_runs(20, 12, edited=(3, 7), factor=[1.03, 1 / 1.03], shift=-0.02, **noise):
        for kernel in comparison.kernels:
            factor, verdict = truth.get(kernel.kernel, (1, "same"))
            assert kernel.verdict in (verdict, "insufficient", "same")
            if kernel.changed:
                found += kernel.verdict == verdict
                covered += kernel.low <= factor <= kernel.high
        assert comparison.exit_code() == (verdicts(comparison)["k3"] == "slower")
    assert found >= 36 and covered >= 35


def test_a_slowdown_is_found_where_nothing_is_a_control():
    a, b = run(0, kernels=1, noise=0.005), run(1, kernels=1, noise=0.005, edited=(0,), factor=1.05)
    comparison = judge(a, b, Options())
    assert verdicts(comparison) == {"k0": "slower"}
    assert any("No kernel is unchanged" in note for note in comparison.notes)


def test_unchanged_kernels_that_are_all_noisy_are_not_called_changed():
    a, b = run(0, kernels=2), run(1, kernels=2, edited=(0,))
    b = edit(b, lambda rows: rows["kernel"] == "k1", noisy=True)
    notes = judge(a, b, Options()).notes
    assert any(note.startswith("No unchanged kernel was timed well enough, so a slower machine") for note in notes)
    assert not any("No kernel is unchanged" in note for note in notes)


def test_quiet_runs_are_the_same():
    comparison = judge(run(0, noise=0.001), run(1, noise=0.001, edited=(1,)), Options())
    assert set(verdicts(comparison).values()) == {"same"} and comparison.whole.verdict == "same"


# --- shift, spread and intervals --------------------------------------------------------------------------------------


def test_the_common_shift_is_removed_or_kept():
    a, b = run(0, noise=0.002), run(1, noise=0.002, shift=0.05, edited=(1,))
    removed, kept = judge(a, b, Options()), judge(a, b, Options(absolute=True))
    assert removed.whole.ratio == pytest.approx(1, abs=0.005) and removed.exit_code() == 0
    assert kept.whole.ratio == pytest.approx(1.05, abs=0.005) and kept.exit_code() == 1
    assert any("above 3 %" in note for note in removed.notes)


def test_an_unchanged_kernel_is_never_faster_or_slower_unless_all_are_judged():
    a, b = run(0, noise=0.002), run(1, noise=0.002)
    b = edit(b, lambda rows: rows["kernel"] == "k4", time_ms=b.rows["time_ms"] * 1.2)
    assert verdicts(judge(a, b, Options()))["k4"] == "insufficient"
    assert verdicts(judge(a, b, Options(unchanged=True)))["k4"] == "slower"


def test_the_controls_widen_the_interval_of_a_case():
    widths = {}
    for noise in (0.002, 0.03):
        cases = judge(run(0, noise=noise), run(1, noise=noise, edited=(3,)), Options()).cases
        widths[noise] = np.median(np.log(cases["ratio_high"] / cases["ratio_low"]))
    assert widths[0.03] > 5 * widths[0.002]


def test_the_spread_of_the_controls_is_estimated():
    """Scale of a t-distribution with the degrees of freedom of the model, 5 000 cases: within 10 %."""
    from spmm_roofline.compare.pairs import pair

    scale = 0.02
    cases = pair(run(0, 200, noise=0.0), run(1, 200, noise=scale, tails=FREEDOM)).cases
    found = estimate(cases, True)
    assert found.controls == 200 and found.cases == 5200
    assert np.median(found.scale(cases)) == pytest.approx(scale, rel=0.1)
    assert abs(found.shift) < 4 * found.shift_error < 0.01


def test_a_noisy_case_enters_no_mean():
    a, b = run(0, noise=0.002), run(1, noise=0.002, edited=(2,))
    which = (b.rows["kernel"] == "k2") & (b.rows["matrix"] == "m3")
    b = edit(b, which, time_ms=b.rows["time_ms"] * 9, noisy=True)
    comparison = judge(a, b, Options())
    assert verdicts(comparison)["k2"] == "same" and "2 cases are noisy" in comparison.notes[-1]
    assert set(comparison.cases.loc[comparison.cases["noisy"].astype(bool), "verdict"]) == {"insufficient"}


def test_a_kernel_of_noisy_cases_only_is_insufficient():
    a, b = run(0), edit(run(1, edited=(2,)), lambda rows: rows["kernel"] == "k2", noisy=True)
    comparison = judge(a, b, Options())
    (kernel,) = (kernel for kernel in comparison.kernels if kernel.changed)
    assert kernel.verdict == "insufficient" and math.isnan(kernel.ratio)


def test_the_interval_of_a_row_comes_before_its_percentiles():
    from spmm_roofline.compare.pairs import pair

    a, b = run(0), run(1)
    a, b = (edit(s, s.rows.index >= 0, time_low_ms=s.rows["time_ms"] * 0.9) for s in (a, b))
    a, b = (edit(s, s.rows.index >= 0, time_high_ms=s.rows["time_ms"] * 1.1) for s in (a, b))
    assert pair(a, b).cases["error"].to_numpy() == pytest.approx(math.sqrt(2) * 0.2 / 3.92)
    assert pair(run(0), run(1)).cases["error"].to_numpy() == pytest.approx(6.56e-4, rel=0.01)


def test_another_kind_of_host_widens_the_interval_of_short_cases():
    a = run(0, noise=0.001)
    b = edit(run(1, noise=0.001, edited=(1,)), a.rows.index >= 0, replay_ms=0.003)
    cases = judge(a, b, Options()).cases
    width = np.log(cases["ratio_high"] / cases["ratio_low"])
    assert width[cases["time_a_ms"] < 0.02].min() > 10 * width[cases["time_a_ms"] > 2].max()


# --- exit codes -------------------------------------------------------------------------------------------------------


def test_a_single_slow_case_fails_if_asked():
    a, b = run(0, noise=0.001), run(1, noise=0.001, edited=(2,))
    which = (b.rows["kernel"] == "k2") & (b.rows["matrix"] == "m3") & (b.rows["n"] == 32)
    comparison = judge(a, edit(b, which, time_ms=b.rows["time_ms"] * 2), Options())
    assert comparison.exit_code() == 0 and comparison.exit_code(single_cases=True) == 1


def test_a_case_that_fails_in_the_new_run_is_an_alarm():
    a, b = run(0, noise=0.001), run(1, noise=0.001)
    which = (b.rows["kernel"] == "k2") & (b.rows["matrix"] == "m3")
    comparison = judge(a, edit(b, which, status="wrong"), Options())
    assert comparison.lost == 2 and comparison.exit_code() == 1
    assert judge(edit(a, which, status="wrong"), b, Options()).exit_code() == 0


def test_nothing_to_say_is_strictly_an_exit_of_its_own():
    comparison = judge(run(0, noise=0.1), run(1, noise=0.1), Options())
    assert set(verdicts(comparison).values()) == {"insufficient"}
    assert comparison.exit_code() == 0 and comparison.exit_code(strict=True) == 3


def test_runs_without_a_common_case_are_refused():
    a, b = run(0), run(1)
    with pytest.raises(CompareError, match=r"no case has a time on both sides .*--across-suites"):
        judge(a, edit(b, b.rows.index >= 0, suite="other"), Options())
    with pytest.raises(CompareError, match=r"measured on h200 and B on h100; --across-devices"):
        judge(a, edit(b, b.rows.index >= 0, device="h100"), Options())


# --- false discovery rate ---------------------------------------------------------------------------------------------


def test_the_step_up_procedure_of_benjamini_and_hochberg():
    """The fifteen p-values of their section 3.2, of which their procedure refuses four at 0.05."""
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528]
    p += [0.7590, 1.0]
    assert rejected(np.array(p), 0.05).tolist() == [True] * 4 + [False] * 11
    assert rejected(np.array(p[::-1]), 0.05).tolist() == [False] * 11 + [True] * 4
    assert rejected(np.array([]), 0.05).size == 0
    # The last p-value that is small enough takes those before it along.
    assert rejected(np.array([0.02, 0.03, 0.04]), 0.05).all()
