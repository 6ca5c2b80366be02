"""Whether one run is faster or slower than another: ``spmm-roofline compare A B``.

Rows of table ``measure`` are paired by case. The ratio of a case is the time in B over the time in A. The question is
which ratios an edit of a kernel explains, since two runs of one code differ as well: placement in memory, clocks and
hosts change between processes. What two runs differ by is estimated from the *controls*, the kernels whose machine
code is the same on both sides (:mod:`.pairs`).

1. **Shift.** The median over control kernels of the median of their log ratios is what the machine was slower that
   day. It is removed from every ratio, because no edit of a kernel explains it; ``--absolute`` keeps it.
2. **Spread of a case.** Between two runs, the log ratio of an unchanged case follows Student's t-distribution, which
   has longer tails than the normal one, with a scale s, s² = a² + (b / time)² + (c u)²: a floor, a jitter of the
   replay, and c times the standard error u of the two medians. The controls give a, b and c by penalised maximum
   likelihood (:mod:`.spread`). The recorded rows of an H200 that several suites measured are the prior.
3. **Geometric mean of a kernel.** Its variance follows from the scales of its cases, times the square of the factor
   by which the means of the control kernels scatter more than independent cases would. It is pooled with the variance
   between the kernel's own matrices, as a moderated t-statistic does (Smyth, Statistical Applications in Genetics and
   Molecular Biology 3(1), 2004), because few controls, or none, may know less of the noise than the kernel itself. The
   95 % interval is the hull of that of the t-distribution and of the percentile bootstrap over matrices (Efron &
   Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13).
4. **Verdict.** ``slower`` or ``faster`` where "no difference" is refused at the false discovery rate
   (Benjamini & Hochberg, Journal of the Royal Statistical Society B 57, 1995) over all judged kernels, or over all
   their cases, the interval does not contain 1, and the ratio differs from 1 by the least change that matters or more.
   ``same`` where the interval lies within the least change around 1. Everything else is ``insufficient``.

An unchanged kernel is judged against the other controls, and is ``same`` or ``insufficient``: a difference without an
edit is one of two runs. With ``--all`` it is judged like any other, for edits that machine code does not show, such as
one of a work list that Python makes.
"""

from __future__ import annotations

from .sides import CompareError
from .verdicts import Comparison, Options, compare

__all__ = ["CompareError", "Comparison", "Options", "compare"]
