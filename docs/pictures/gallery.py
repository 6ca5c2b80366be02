"""Every picture of the documentation by its name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from . import formats, kernels, ladders, limits, measuring, road
from .svg import Drawing

#: Name in the directive ``picture`` → function that makes the drawing.
PICTURES: dict[str, Callable[[], Drawing]] = {
    "road/stages": road.stages,
    "road/reruns": road.reruns,
    "measuring/batch": measuring.batch,
    "measuring/job": measuring.job,
    "measuring/tolerances": measuring.tolerances,
    "limits/predictions": limits.predictions,
    "limits/steps": limits.steps,
    "limits/fullness": limits.fullness,
    "limits/counters": limits.counters,
    **{f"formats/{name}": partial(formats.draw, name) for name in formats.FAMILIES},
    "kernels/key": kernels.key,
    **{f"kernels/{sheet}": partial(kernels.draw, sheet) for sheet in kernels.SHEETS},
    **{f"ladders/{study}": partial(ladders.draw, study) for study in ladders.ladders()},
}
