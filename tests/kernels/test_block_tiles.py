"""Heads of the kernels on super-tiles agree with the shape that their code assumes."""

import pytest

from spmm_roofline.kernels import heads

#: Kernels with a warp for each 16x8 tile of C, by the names of their constants: rows, columns and reduction.
SHAPES = {
    **{name: ("TILE_M", "TILE_N", "TILE_K") for name in ("mma_obt_tiled", "mma_obt_tiled_block2")},
    **{
        name: ("SUPER_M", "SUPER_N", "SUPER_K")
        for name in ("mma_obts_large_tiled", "mma_obts_large_tiled_listed", "mma_obts_large_tiled_listed_stages3")
    },
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_super_tile_has_a_warp_for_each_tile_of_c(name):
    head = heads()[name]
    m, n, k = (int(head.defines()[constant]) for constant in SHAPES[name])
    assert (head.pads["m"], head.pads["n"], head.pads["k"]) == (m, n, k), "operands are padded to whole super-tiles"
    assert int(head.launches[0].block) == m // 16 * (n // 8) * 32 <= 1024
    assert m == k == 16 * head.options(1)["block"], "a super-tile is BLOCK tiles high and wide"


def test_a_smaller_block_is_a_rung_of_its_own():
    base, twin = heads()["mma_obt_tiled"], heads()["mma_obt_tiled_block2"]
    assert twin.after == base.name and twin.launches[0].grid == base.launches[0].grid
    assert base.launches[0].block == "512" and twin.launches[0].block == "128"
