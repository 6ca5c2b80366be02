"""Colours of figures stand out from a light and from a dark page, and those that are compared differ for every eye."""

import itertools
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgb

from spmm_roofline.figures import (
    branch_stall,
    break_even,
    masked_block,
    pruned_block,
    pruned_dense,
    scalar_cores,
    stalls,
    statuses,
    style,
)

ROOT = Path(__file__).resolve().parents[2]
MODULES = [*sorted((ROOT / "workflow/spmm_roofline/figures").glob("*.py")), ROOT / "docs/opening.py"]
#: The light and the dark card, on which figures lie.
CARDS = re.findall(r"--card: (#\w+);", (ROOT / "report/style.css").read_text())[:2]
#: Placeholders of the page's own colours.
PAGE = {style.INK, style.FAINT, style.PAPER}

#: Palettes whose colours stand side by side in one figure.
PALETTES = {
    "precisions": style.PRECISION_HUES.values(),
    "states of warps": [*(hue for _, hue in stalls.STATES.values()), stalls.OTHER],
    "parts of cycles": [hue for _, hue in branch_stall.PARTS.values()],
    "statuses": statuses.COLOURS.values(),
    "multiplications": break_even.COLOURS.values(),
    "classes of synergy": [hue for hue, _ in scalar_cores.LOOKS.values()],
    "sparsities": pruned_block.TONES,
    "dense products": [look["color"] for _, look in pruned_dense.RIVALS.values()],
    "attention": [look["color"] for _, look in masked_block.LOOKS.values()],
}
#: Vision → what it makes of linear red, green and blue (Machado, Oliveira and Fernandes 2009, severity 1).
VISIONS = {
    "normal": np.eye(3),
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
#: The least distance in CIELAB of two colours of a palette; 2.3 is just noticeable.
APART = 8


def contrast(one, other):
    """Ratio of the luminances of two colours as WCAG 2 defines it, from 1 to 21."""
    dark, light = sorted(style.luminance(colour) + 0.05 for colour in (one, other))
    return light / dark


def seen(colour, vision):
    """CIELAB of a colour as it is seen."""
    part = np.array(to_rgb(colour))
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    rgb = np.clip(np.array(VISIONS[vision]) @ linear, 0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(to_xyz) @ rgb / (0.9505, 1, 1.089)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_every_colour_stands_out_from_a_light_and_from_a_dark_page(path):
    assert len({*CARDS}) == 2
    for colour in {*re.findall(r'"(#[0-9a-f]{6})"', path.read_text())} - PAGE:
        least = min(contrast(colour, card) for card in CARDS)
        assert least >= 3, f"{path.name}: {colour} has a contrast of {least:.2f} to a card; 3 is the least"


@pytest.mark.parametrize("name", PALETTES)
def test_colours_of_one_figure_differ_for_every_eye(name):
    for vision in VISIONS:
        for one, other in itertools.combinations(PALETTES[name], 2):
            apart = np.linalg.norm(seen(one, vision) - seen(other, vision))
            assert apart >= APART, f"{name}: {one} and {other} are {apart:.1f} apart with {vision}"


def test_small_marks_of_two_precisions_differ_at_a_glance():
    for one, other in itertools.combinations(style.PRECISION_HUES.values(), 2):
        apart = np.linalg.norm(seen(one, "normal") - seen(other, "normal"))
        assert apart >= 35, f"{one} and {other} are {apart:.1f} apart"


def test_marks_stand_out_from_the_light_and_from_the_dark_card_and_no_two_kernels_look_alike():
    assert contrast("#000", "#fff") == 21
    kernels = [{"study": study, "kernel": f"{study}_{n}"} for study in (*style.STUDIES, "other") for n in range(70)]
    styles = style.kernel_styles(pd.DataFrame(kernels))
    tones = {kernel: to_hex(look["color"]) for kernel, look in styles.items()}
    faint = {kernel: tone for kernel, tone in tones.items() if min(contrast(tone, card) for card in CARDS) < 3}
    assert faint == {}
    for study in (*style.STUDIES, "other"):
        looks = {(look["marker"], tones[name]) for name, look in styles.items() if name.rpartition("_")[0] == study}
        assert len(looks) == 70, f"kernels of {study} look alike"
