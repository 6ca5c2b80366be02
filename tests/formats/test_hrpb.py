"""Hierarchical row-panel blocking: bytes by hand, the kernel's decode, brick densities and the cut of heavy panels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from spmm_roofline.formats import FORMATS, FormatError
from spmm_roofline.formats.hrpb import SCHEDULES, virtual_panels
from spmm_roofline.formats.values import rounded

HRPB = FORMATS["hrpb"]


def canonical(dense):
    a = csr_array(np.asarray(dense, dtype=np.float64))
    a.sort_indices()
    return a


@st.composite
def matrices(draw):
    m, k = draw(st.integers(0, 120)), draw(st.integers(0, 120))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    keep = rng.random((m, k)) < draw(st.floats(0, 1)) * rng.random((m, 1))
    return canonical(keep * (rng.random((m, k)) + 0.5))


def test_a_small_matrix_byte_by_byte():
    # Two active columns of five in the only panel: 1 and 4; one brick, in brick column 0.
    dense = np.zeros((3, 5))
    dense[0, 1], dense[0, 4], dense[2, 4] = 1, 2, 3
    packed = HRPB.from_csr(canonical(dense))
    assert packed.block_row_ptr.tolist() == [0, 1]
    assert packed.size_ptr.tolist() == [4, 4 + 1 + 1 + 1 + 4]
    raw = packed.packed.tobytes()
    assert np.frombuffer(raw[:64], np.int32).tolist() == [1, 4] + [-1] * 14  # columns of block 0
    header = raw[64:80]
    assert list(header[:5]) == [0, 1, 1, 1, 1]  # first brick of the four brick columns, and the number of bricks
    assert header[5] == 0 and not any(header[6:])  # brick row of the brick; no next block
    # Row 0 holds slots 0 and 1, row 2 slot 1: bits 0, 1 and 4·2 + 1.
    assert int.from_bytes(raw[80:88], "little") == 1 << 0 | 1 << 1 | 1 << 9
    assert np.frombuffer(raw[96:112], np.float32).tolist() == [1, 2, 3, 0]
    assert np.frombuffer(raw[112:], np.int32).tolist() == [-1] * 16  # there is no next block
    assert packed.stats()["alpha"] == 3 / 64 and packed.stats()["beta"] == 1


def test_two_brick_rows_and_the_ids_of_the_next_block():
    # 17 active columns: two blocks. Column 0 has entries in both brick rows of a panel of 32.
    dense = np.zeros((32, 40))
    dense[3, 0:34:2] = 1
    dense[20, 0] = 5
    packed = HRPB.from_csr(canonical(dense), tm=32)
    assert packed.active_columns.tolist() == [list(range(0, 32, 2)), [32] + [-1] * 15]
    assert packed.column_pointers().tolist() == [[0, 2, 3, 4, 5], [0, 1, 1, 1, 1]]
    start = int(packed.size_ptr[0]) * 16
    assert packed.packed.tobytes()[start + 5 : start + 10] == bytes([0, 1, 0, 0, 0])
    end = int(packed.size_ptr[1]) * 16
    assert packed.packed.tobytes()[start + 15] == packed.size_ptr[2] - packed.size_ptr[1]
    assert np.frombuffer(packed.packed.tobytes()[end - 64 : end], np.int32).tolist() == [32] + [-1] * 15
    assert packed.stats()["beta"] == 6 / 5


def decode(packed, block):
    """Dense tm×tk block as algorithm 1 decodes it: every lane tests its two bits and counts the set bits below."""
    raw = packed.packed.tobytes()
    at = int(packed.size_ptr[block]) * 16
    pointers = raw[at : at + packed.tk // 4 + 1]
    brick_rows = raw[at + len(pointers) : at + 16]
    bricks = pointers[-1]
    at_values = at + 16 + -(-bricks * 8 // 16) * 16
    dense = np.zeros((packed.tm, packed.tk))
    offset = 0
    for column in range(packed.tk // 4):
        for brick in range(pointers[column], pointers[column + 1]):
            pattern = int.from_bytes(raw[at + 16 + 8 * brick : at + 24 + 8 * brick], "little")
            for lane in range(32):
                for bit in (lane, lane + 32):
                    if pattern >> bit & 1:
                        position = at_values + 4 * (offset + (pattern & ((1 << bit) - 1)).bit_count())
                        row = brick_rows[brick] * 16 + bit // 4
                        dense[row, 4 * column + bit % 4] = np.frombuffer(raw[position : position + 4], np.float32)[0]
            offset += pattern.bit_count()
    return dense


@pytest.mark.parametrize("tk", [8, 16])
@pytest.mark.parametrize("tm", [16, 32])
@settings(max_examples=25)
@given(a=matrices())
def test_blocks_decode_as_in_the_kernel(tm, tk, a):
    packed = HRPB.from_csr(a, tm=tm, tk=tk)
    dense = np.zeros((-(-a.shape[0] // tm) * tm, a.shape[1]))
    dense[: a.shape[0]] = rounded(a.toarray().ravel(), "tf32").reshape(a.shape)
    assert packed.packed.flags.c_contiguous and packed.size_ptr.dtype == np.int32
    bricks = columns = 0
    for panel in range(len(packed.block_row_ptr) - 1):
        rows = dense[tm * panel : tm * (panel + 1)]
        active = np.flatnonzero(rows.any(axis=0))
        blocks = range(packed.block_row_ptr[panel], packed.block_row_ptr[panel + 1])
        assert len(blocks) == -(-len(active) // tk)
        for number, block in enumerate(blocks):
            chosen = active[tk * number : tk * (number + 1)]
            assert packed.active_columns[block].tolist() == [*chosen, *[-1] * (tk - len(chosen))]
            expected = np.zeros((tm, tk))
            expected[:, : len(chosen)] = rows[:, chosen]
            assert np.array_equal(decode(packed, block), expected)
            filled = expected.reshape(tm // 16, 16, tk // 4, 4).any(axis=(1, 3))
            bricks += int(filled.sum())
            columns += int(filled.any(axis=0).sum())
    stats = packed.stats()
    assert stats["stored_slots"] == 64 * bricks
    assert stats["alpha"] == pytest.approx(a.nnz / (64 * bricks) if bricks else 0)
    assert stats["beta"] == pytest.approx(bricks / columns if columns else 0)


@pytest.mark.parametrize(("tm", "tk"), [(8, 16), (48, 16), (16, 4), (32, 32)])
def test_other_tiles_are_refused(tm, tk):
    with pytest.raises(FormatError, match=f"panels of 16 or 32 rows and blocks of 8 or 16 columns, not {tm}×{tk}"):
        HRPB.from_csr(canonical(np.eye(3)), tm=tm, tk=tk)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "tf32", "float32", "float64"])
@pytest.mark.parametrize("tm", [16, 32])
def test_every_dtype_in_panels_of_either_height(dtype, tm):
    rng = np.random.default_rng()
    a = canonical((rng.random((150, 90)) < 0.1) * rng.normal(size=(150, 90)))
    back = HRPB.from_csr(a, dtype=dtype, tm=tm).to_csr()
    assert np.array_equal(back.toarray(), rounded(a.toarray().ravel(), dtype).astype(float).reshape(a.shape))


# --- virtual row panels ---------------------------------------------------------------------------------------------


def pointers(blocks):
    return np.append(0, np.cumsum(blocks)).astype(np.int32)


#: Section 5's example: 991 panels, the first of 10 blocks and the others of one.
EXAMPLE = pointers([10] + [1] * 990)


def test_the_papers_example_is_left_whole():
    # On 100 multiprocessors of one CTA each, ceil(991 / 100) = 10 waves. Equation 6: 10 blocks over an average of
    # 1000 / 991 are 9.91 loads. Equation 7: 9.91 loads over 10 waves are a ratio of 0.991.
    panel, start, end, clear = virtual_panels(EXAMPLE, "waves", 10)
    assert panel.tolist() == list(range(991)) and not len(clear)
    assert (end - start).tolist() == [10] + [1] * 990


@pytest.mark.parametrize(
    ("waves", "sizes"),
    # 9.91, 4.955, 3.303, 2.4775, 1.982, 1.652 and 1.416 CTAs, rounded.
    [(1, [1] * 10), (2, [2] * 5), (3, [3, 3, 4]), (4, [5, 5]), (5, [5, 5]), (6, [5, 5]), (7, [10])],
)
def test_the_heavy_panel_of_the_example_in_fewer_waves(waves, sizes):
    panel, start, end, clear = virtual_panels(EXAMPLE, "waves", waves)
    cut = len(sizes) > 1
    assert panel.tolist() == [~0 if cut else 0] * len(sizes) + list(range(1, 991))
    assert (end - start).tolist() == sizes + [1] * 990
    assert clear.tolist() == [0] * cut


def test_the_average_is_one_wave():
    # The average is 4 blocks; the first of four panels has three times as many.
    for schedule, waves in (("average", 1), ("average", 7), ("waves", 1)):
        panel, start, end, clear = virtual_panels(pointers([12, 2, 2, 0]), schedule, waves)
        assert panel.tolist() == [~0, ~0, ~0, 1, 2]
        assert start.tolist() == [0, 4, 8, 12, 14] and end.tolist() == [4, 8, 12, 14, 16]
        assert clear.tolist() == [0, 3]


def test_the_heaviest_panels_come_first_and_equal_ones_keep_their_order():
    panel, start, end, clear = virtual_panels(pointers([2, 0, 5, 2, 9]), "sorted")
    assert panel.tolist() == [4, 2, 0, 3]
    assert start.tolist() == [9, 2, 0, 7] and end.tolist() == [18, 7, 2, 9]
    assert clear.tolist() == [1]


@settings(max_examples=200)
@given(
    blocks=st.lists(st.one_of(st.integers(0, 4), st.integers(0, 500)), max_size=60),
    schedule=st.sampled_from(SCHEDULES),
    waves=st.integers(0, 50),
)
def test_every_block_lies_in_exactly_one_chunk(blocks, schedule, waves):
    panel, start, end, clear = virtual_panels(pointers(blocks), schedule, waves)
    covered = [b for s, e in zip(start, end, strict=True) for b in range(s, e)]
    assert sorted(covered) == list(range(sum(blocks)))
    if schedule == "sorted":
        assert (np.diff(end - start) <= 0).all()
    else:
        assert covered == sorted(covered)
    assert (end > start).all()
    of = np.where(panel < 0, ~panel, panel)
    starts = pointers(blocks)
    assert (starts[of] <= start).all() and (end <= starts[of + 1]).all()
    counts = np.bincount(of, minlength=len(blocks))
    assert ((panel < 0) == (counts[of] > 1)).all()
    assert clear.tolist() == np.flatnonzero(counts != 1).tolist()
    for p in np.flatnonzero(counts > 1):
        sizes = (end - start)[of == p]
        assert sizes.max() - sizes.min() <= 1
    if schedule in ("whole", "sorted"):
        assert counts.tolist() == [min(b, 1) for b in blocks]
    elif sum(blocks) and waves:
        # Equations 6 and 7, in floating point.
        loads = np.array(blocks) / (sum(blocks) / len(blocks))
        ratio = loads / (waves if schedule == "waves" else 1)
        assert (np.abs(counts - np.clip(ratio, 1, np.maximum(blocks, 1)))[np.array(blocks) > 0] <= 0.5 + 1e-9).all()


def heavy_and_light():
    """Panels of 25, 1, 1 and 1 blocks."""
    dense = np.zeros((64, 400))
    dense[0] = 1
    dense[16:, 0] = 1
    return canonical(dense)


def check_work_list(packed, panels):
    """``chunks`` of the named panels, in order, and where their blocks lie."""
    assert packed.chunks.dtype == packed.clear_panels.dtype == np.int32 and packed.chunks.flags.c_contiguous
    assert packed.chunks[:, 0].tolist() == panels
    assert packed.chunks[:, 1].sum() == packed.blocks
    first = np.append(0, np.cumsum(packed.chunks[:, 1]))[:-1]
    assert packed.chunks[:, 2].tolist() == packed.size_ptr[first].tolist()
    assert packed.chunks[:, 3].tolist() == np.diff(packed.size_ptr)[first].tolist()


def test_the_schedule_is_part_of_the_format():
    # Seven blocks are the average: 25 / 7 = 3.57 loads.
    a = heavy_and_light()
    packed = HRPB.from_csr(a, schedule="average")
    assert packed.counts()["panels"] == 4
    check_work_list(packed, [~0] * 4 + [1, 2, 3])
    assert packed.clear_panels.tolist() == [0]
    assert HRPB.from_csr(a).chunks.tolist() == HRPB.from_csr(a, schedule="whole").chunks.tolist()
    check_work_list(HRPB.from_csr(a), [0, 1, 2, 3])
    with pytest.raises(FormatError, match="no schedule 'best', only whole, sorted, average, waves"):
        HRPB.from_csr(a, schedule="best")


def test_another_number_of_waves_needs_no_second_packing():
    a = heavy_and_light()
    packed = HRPB.from_csr(a, schedule="waves")
    for waves, chunks in ((1, 4), (2, 2), (3, 1), (4, 1)):
        again = packed.with_waves(waves)
        check_work_list(again, [~0 if chunks > 1 else 0] * chunks + [1, 2, 3])
        direct = HRPB.from_csr(a, schedule="waves", waves=waves)
        assert again.chunks.tolist() == direct.chunks.tolist()
        assert again.clear_panels.tolist() == direct.clear_panels.tolist() == [0] * (chunks > 1)
        assert again.packed is packed.packed and again.size_ptr is packed.size_ptr
        assert (again.to_csr() != a).nnz == 0
    for schedule in ("whole", "sorted", "average"):
        other = HRPB.from_csr(a, schedule=schedule)
        assert other.with_waves(3) is other
