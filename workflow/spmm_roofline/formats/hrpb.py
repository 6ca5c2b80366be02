"""Hierarchical row-panel blocking: A as cuTeSpMM reads it (Xiang et al. 2024, sections 3.2 and 5, figures 3 to 5)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from .arrays import array_module, ceil_div, csr_of_entries, distinct, row_of_entry
from .base import Format, FormatError, Int32, UInt32
from .values import BITS, itemsize, rounded, widened

BRICK_M, BRICK_K = 16, 4
#: Bytes of a unit: what one lane copies at a time, and the alignment of everything in a packed block.
UNIT = 16
#: How panels become the work of CTAs, see :func:`virtual_panels`.
SCHEDULES = ("whole", "sorted", "average", "waves")


@dataclass(frozen=True)
class Hrpb(Format):
    """Panels of ``tm`` rows. The columns of a panel that have an entry, its active columns, are moved together and cut
    into blocks of ``tk``. A block consists of 16×4 bricks; a brick with an entry is stored as a bit mask and values.

    - ``block_row_ptr`` int32[panels + 1]: first block of every panel (the paper's blockedRowPtr);
    - ``size_ptr`` int32[blocks + 1]: where every packed block begins, in units of 16 bytes (sizePtr);
    - ``packed`` uint32[units, 4]: the column ids of block 0, then block after block. A packed block
      consists of four fields, each padded to 16 bytes:

      1. a header of bytes: the first brick of each of the tk/4 brick columns and the number of bricks (colPtr), then
         the brick row of every brick (rows); the last byte is the size of the next block in units;
      2. ``patterns``, 64 bits per brick, in the order of brick columns, then brick rows. Bit 4r + c is set if row r,
         column c of the brick holds an entry: lane l of a warp owns bits l and l + 32, which are its two elements of
         the m16n8k4 fragment, and the number of set bits below its own is the index of its value;
      3. the values, brick after brick, row-major within a brick;
      4. the tk column ids (activeCols) of the *next* block, int32, -1 where a panel's last block has fewer: a
         kernel can fetch the next block's rows of B without a further lookup. A block's own ids lie in the
         tk/4 units before it.

    The work list cuts panels into virtual panels as ``schedule`` says, see :func:`virtual_panels`:

    - ``chunks`` int32[chunks, 4]: the panel, or ~panel (negative) if the panel has other chunks; the number of blocks;
      begin and size of the first block, in units. No further lookup is needed;
    - ``clear_panels`` int32[…]: panels whose rows of C must be cleared before the product: those that were cut and
      those without a block.
    """

    name: ClassVar[str] = "hrpb"
    count_names: ClassVar[tuple[str, ...]] = (*Format.count_names, "panels", "chunk_count", "cleared")

    tm: int
    tk: int
    schedule: str
    block_row_ptr: Int32
    size_ptr: Int32
    packed: UInt32
    chunks: Int32
    clear_panels: Int32

    @classmethod
    def from_csr(
        cls, a: Any, dtype: str = "tf32", tm: int = 16, tk: int = 16, schedule: str = "whole", waves: int = 1
    ) -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`.

        ``schedule`` and ``waves`` are those of :func:`virtual_panels`; :meth:`with_waves` changes ``waves`` without
        packing again. Raises :class:`FormatError` unless ``tm`` is 16 or 32 and ``tk`` 8 or 16, for an unknown
        ``schedule``, or if the packed blocks take 2³¹ units or more.
        """
        if tm not in (16, 32) or tk not in (8, 16):
            raise FormatError(f"{cls.name} has panels of 16 or 32 rows and blocks of 8 or 16 columns, not {tm}×{tk}")
        if schedule not in SCHEDULES:
            raise FormatError(f"{cls.name} has no schedule {schedule!r}, only {', '.join(SCHEDULES)}")
        xp = array_module(a.data)
        m, k, nnz = int(a.shape[0]), int(a.shape[1]), int(a.nnz)
        panels, brick_columns, brick_rows = ceil_div(m, tm), tk // BRICK_K, tm // BRICK_M

        # Active columns: the distinct (panel, column) pairs, in order; an entry's rank within its panel.
        rows = row_of_entry(a.indptr, nnz)
        keys, active = distinct(rows // tm * k + a.indices)
        first_active = xp.searchsorted(keys, xp.arange(panels + 1, dtype=xp.int64) * k)
        block_row_ptr = xp.zeros(panels + 1, dtype=xp.int64)
        block_row_ptr[1:] = xp.cumsum(-(-xp.diff(first_active) // tk))
        panel = keys // max(k, 1)
        rank = xp.arange(len(keys), dtype=xp.int64) - first_active[panel]
        active_block, active_slot = block_row_ptr[panel] + rank // tk, rank % tk

        # Entries sorted by (block, brick column, brick row, bit): the order in which they are stored.
        slot = active_slot[active]
        key = (active_block[active] * brick_columns + slot // BRICK_K) * brick_rows + rows % tm // BRICK_M
        key = key * (BRICK_M * BRICK_K) + rows % BRICK_M * BRICK_K + slot % BRICK_K
        del rows, slot, active
        order = xp.argsort(key)
        key = key[order]
        values = rounded(a.data, dtype)[order]
        del order
        bits = xp.uint64(1) << (key % (BRICK_M * BRICK_K)).astype(xp.uint64)
        key //= BRICK_M * BRICK_K
        starts = xp.ones(nnz, dtype=bool)
        starts[1:] = key[1:] != key[:-1]
        first_entry = xp.flatnonzero(starts)
        bricks = key[first_entry]
        del key, starts
        # The bits of a brick are distinct, so that their sum, modulo 2^64, is their union.
        patterns = _sums_of_runs(bits, first_entry)
        del bits

        # Layout of the packed blocks.
        blocks = int(block_row_ptr[-1])
        brick_block = bricks // (brick_columns * brick_rows)
        first_brick = xp.searchsorted(brick_block, xp.arange(blocks + 1, dtype=xp.int64))
        entries_before = xp.append(first_entry, xp.asarray([nnz], dtype=first_entry.dtype))[first_brick]
        value_bytes = itemsize(dtype)
        value_unit = 1 + _units(xp.diff(first_brick) * 8)
        sizes = value_unit + _units(xp.diff(entries_before) * value_bytes) + tk * 4 // UNIT
        size_ptr = xp.full(blocks + 1, tk * 4 // UNIT, dtype=xp.int64)
        size_ptr[1:] += xp.cumsum(sizes)
        units = int(size_ptr[-1])
        if units >= 2**31:
            raise FormatError(f"{cls.name} counts units of {UNIT} bytes in 32 bits, too few for {units:,}")

        packed = xp.zeros((units, UNIT // 4), dtype=xp.uint32)
        ids = packed.view(xp.int32).reshape(-1)
        ids[(size_ptr * 4 - tk)[:, None] + xp.arange(tk)] = -1
        ids[size_ptr[active_block] * 4 - tk + active_slot] = (keys % max(k, 1)).astype(xp.int32)
        in_block = xp.arange(len(bricks), dtype=xp.int64) - first_brick[brick_block]
        header = packed.view(xp.uint8).reshape(-1)
        columns = brick_block * brick_columns + bricks // brick_rows % brick_columns
        in_columns = xp.bincount(columns, minlength=blocks * brick_columns).reshape(blocks, brick_columns)
        after = (size_ptr[:-1] * UNIT)[:, None] + xp.arange(1, brick_columns + 1)
        header[after] = xp.cumsum(in_columns, axis=1).astype(xp.uint8)
        header[size_ptr[:-2] * UNIT + UNIT - 1] = sizes[1:].astype(xp.uint8)
        header[size_ptr[brick_block] * UNIT + brick_columns + 1 + in_block] = (bricks % brick_rows).astype(xp.uint8)
        packed.view(xp.uint64).reshape(-1)[(size_ptr[brick_block] + 1) * (UNIT // 8) + in_block] = patterns
        stored = packed.view(f"uint{8 * value_bytes}").reshape(-1)
        position = ((size_ptr[:-1] + value_unit) * (UNIT // value_bytes) - entries_before[:-1])[
            row_of_entry(entries_before, nnz)
        ]
        position += xp.arange(nnz, dtype=xp.int64)
        stored[position] = values.view(stored.dtype)

        chunks, clear_panels = _work_list(block_row_ptr, size_ptr, schedule, waves)
        return cls(
            shape=(m, k),
            nnz=nnz,
            dtype=dtype,
            tm=tm,
            tk=tk,
            schedule=schedule,
            block_row_ptr=block_row_ptr.astype(xp.int32),
            size_ptr=size_ptr.astype(xp.int32),
            packed=packed,
            chunks=chunks,
            clear_panels=clear_panels,
        )

    def with_waves(self, waves: int) -> Self:
        """This matrix with the work list of a launch of ``waves`` waves; its packed blocks are shared, not copied."""
        if self.schedule != "waves":
            return self
        chunks, clear_panels = _work_list(self.block_row_ptr, self.size_ptr, self.schedule, waves)
        return replace(self, chunks=chunks, clear_panels=clear_panels)

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, decoded from the packed blocks as a kernel decodes them."""
        xp = array_module(self.packed)
        col_ptr = self.column_pointers()
        per_block = col_ptr[:, -1].astype(xp.int64)
        first_brick = xp.zeros(self.blocks + 1, dtype=xp.int64)
        first_brick[1:] = xp.cumsum(per_block)
        bricks = int(first_brick[-1])
        block = row_of_entry(first_brick, bricks)
        in_block = xp.arange(bricks, dtype=xp.int64) - first_brick[block]
        start = self.size_ptr[:-1].astype(xp.int64)
        patterns = self.packed.view(xp.uint64).reshape(-1)[(start[block] + 1) * (UNIT // 8) + in_block]
        brick_row = self.packed.view(xp.uint8).reshape(-1)[start[block] * UNIT + col_ptr.shape[1] + in_block]
        brick_column = (col_ptr[block, 1:] <= in_block[:, None]).sum(axis=1)

        bits = patterns[:, None] >> xp.arange(BRICK_M * BRICK_K, dtype=xp.uint64) & xp.uint64(1)
        brick, bit = xp.nonzero(bits)
        block_of_entry = block[brick]
        # Index of an entry's value within its block.
        in_values = xp.arange(len(brick), dtype=xp.int64)
        in_values -= xp.searchsorted(block_of_entry, block_of_entry)
        value_bytes = itemsize(self.dtype)
        base = (start + 1 + _units(per_block * 8)) * (UNIT // value_bytes)
        stored = self.packed.view(f"uint{8 * value_bytes}").reshape(-1)[base[block_of_entry] + in_values]
        values = _values(stored, self.dtype)
        panel = row_of_entry(self.block_row_ptr, self.blocks)[block_of_entry]
        rows = panel * self.tm + brick_row[brick].astype(xp.int64) * BRICK_M + bit // BRICK_K
        slot = brick_column[brick].astype(xp.int64) * BRICK_K + bit % BRICK_K
        columns = self.active_columns[block_of_entry, slot].astype(xp.int64)
        kept = xp.flatnonzero(values != 0)
        return csr_of_entries(rows[kept], columns[kept], values[kept], self.shape)

    @property
    def active_columns(self) -> Any:
        """Column of A in every slot of every block, int32[blocks, tk], -1 where a slot is empty (activeCols)."""
        xp = array_module(self.packed)
        begin = self.size_ptr[:-1].astype(xp.int64) * 4 - self.tk
        return self.packed.view(xp.int32).reshape(-1)[begin[:, None] + xp.arange(self.tk)]

    def column_pointers(self) -> Any:
        """First brick of every brick column of every block and, last, its bricks, uint8[blocks, tk/4 + 1] (colPtr)."""
        xp = array_module(self.packed)
        begin = self.size_ptr[:-1].astype(xp.int64) * UNIT
        columns = xp.arange(self.tk // BRICK_K + 1)
        return self.packed.view(xp.uint8).reshape(-1)[begin[:, None] + columns]

    @property
    def bricks(self) -> int:
        """Bricks stored."""
        return int(self.column_pointers()[:, -1].sum())

    @property
    def stored_slots(self) -> int:
        """Slots of the bricks: what the tensor cores multiply. Zeros in a brick take a bit each, not a value."""
        return BRICK_M * BRICK_K * self.bricks

    @property
    def blocks(self) -> int:
        return len(self.size_ptr) - 1

    def counts(self) -> dict[str, int]:
        """``panels``, ``chunk_count`` and ``cleared`` (panels to clear), besides the counts of every format."""
        cleared = len(self.clear_panels)
        return {
            **super().counts(),
            "panels": len(self.block_row_ptr) - 1,
            "chunk_count": len(self.chunks),
            "cleared": cleared,
        }

    def stats(self) -> dict[str, float | int]:
        """The statistics of every format, and α and β (section 4): fill of the bricks, bricks per brick
        column. The unused columns of a panel's last brick count in this α, and not in the feature of that name."""
        bricks = self.bricks
        pointers = self.column_pointers()
        columns = int((pointers[:, 1:] > pointers[:, :-1]).sum())
        return {
            **super().stats(),
            "alpha": self.nnz / (BRICK_M * BRICK_K * bricks) if bricks else 0.0,
            "beta": bricks / columns if columns else 0.0,
        }


def virtual_panels(block_row_ptr: Any, schedule: str, waves: int = 1) -> tuple[Any, Any, Any, Any]:
    """Cut or order the panels for CTAs (Xiang et al. 2024, section 5); ``block_row_ptr`` [panels + 1] counts blocks.

    ``schedule`` is one of

    - ``whole``: a panel is one chunk, however heavy;
    - ``sorted``: so it is, and the panels with the most blocks come first (their first alternative). Panels with
      equally many blocks keep their order;
    - ``average``: heavy panels are cut to about the average number of blocks of a panel (their second alternative);
    - ``waves``: num_loads, a panel's blocks over that average (equation 6), over num_waves, the number ``waves`` of
      waves in which a device works off the CTAs of whole panels, is the partition ratio (equation 7): the number of
      chunks. One wave gives the schedule ``average``.

    The paper leaves open how a ratio becomes a number. Here it is rounded to the nearest integer, at least one and at
    most the panel's blocks: a cut costs atomic additions and pays only if the excess is most of a wave's load. Chunks
    of a panel differ by one block at most, and none is empty; a panel without a block has no chunk, but counts in the
    average.

    Returns ``chunk_panel``, ``chunk_start``, ``chunk_end`` and ``clear_panels``, int32: panels as in :class:`Hrpb`,
    first block and end of every chunk, and the panels to clear.
    """
    xp = array_module(block_row_ptr)
    starts = block_row_ptr.astype(xp.int64)
    blocks = xp.diff(starts)
    panels, total = len(blocks), int(starts[-1])
    # The ratio (blocks / (total / panels)) / waves, rounded without fractions; 0 cuts nothing.
    numerator = blocks * (panels if schedule in ("average", "waves") else 0)
    denominator = max(total * (waves if schedule == "waves" else 1), 1)
    counts = xp.minimum(xp.maximum((2 * numerator + denominator) // (2 * denominator), 1), blocks)
    first = xp.zeros(panels + 1, dtype=xp.int64)
    first[1:] = xp.cumsum(counts)
    panel = row_of_entry(first, int(first[-1]))
    chunk = xp.arange(len(panel), dtype=xp.int64) - first[panel]
    chunk_start = starts[panel] + chunk * blocks[panel] // counts[panel]
    chunk_end = starts[panel] + (chunk + 1) * blocks[panel] // counts[panel]
    chunk_panel = xp.where(counts[panel] > 1, ~panel, panel)
    chunks = [x.astype(xp.int32) for x in (chunk_panel, chunk_start, chunk_end)]
    if schedule == "sorted":
        # Distinct keys, since only some sorts are stable: heavier panels first, equal ones in order.
        order = xp.argsort((total - blocks[panel]) * panels + panel)
        chunks = [x[order] for x in chunks]
    return *chunks, xp.flatnonzero(counts != 1).astype(xp.int32)


def _work_list(block_row_ptr: Any, size_ptr: Any, schedule: str, waves: int) -> tuple[Any, Any]:
    """``chunks`` and ``clear_panels`` of :class:`Hrpb`."""
    xp = array_module(size_ptr)
    panel, start, end, clear_panels = virtual_panels(block_row_ptr, schedule, waves)
    sizes = xp.diff(size_ptr)
    return xp.stack([panel, end - start, size_ptr[start], sizes[start]], axis=1).astype(xp.int32), clear_panels


def _units(sizes: Any) -> Any:
    """Units that hold ``sizes`` bytes."""
    return -(-sizes // UNIT)


def _sums_of_runs(values: Any, first: Any) -> Any:
    """Sums of the runs of ``values`` (unsigned) that begin at ``first``."""
    xp = array_module(values)
    if not len(first):
        return values
    last = xp.append(first[1:], xp.asarray([len(values)], dtype=first.dtype)) - 1
    upto = xp.cumsum(values, dtype=values.dtype)[last]
    sums = upto.copy()
    sums[1:] -= upto[:-1]
    return sums


def _values(stored: Any, dtype: str) -> Any:
    """float64 values of stored bits."""
    if dtype in BITS:
        return widened(stored, dtype)
    return widened(stored.view("float32" if dtype == "tf32" else dtype), dtype)


FORMAT = Hrpb
