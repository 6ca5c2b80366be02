"""Steps of 8 rows by 32 entries that read different banks of shared memory, where the rows of B lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .arrays import array_module, ceil_div, csr_of_entries, nonzero_slots, row_of_entry
from .base import Format, FormatError, Int32, Packer, UInt16, Values
from .values import rounded, widened

#: Rows of a panel, slots of a row in a step, and slots of one of its four rounds.
PANEL, SLOTS, ROUND = 8, 32, 8
#: Most columns: their numbers have 16 bits, and one more stands for a row of zeros.
MOST_COLUMNS = 2**16 - 1
#: Most steps: their slots are counted with 32 bits.
MOST_STEPS = 2**31 // (PANEL * SLOTS) - 1
#: Rows for each CTA of the packer.
WARPS = 8


@dataclass(frozen=True)
class Banked8x32(Format):
    """Panels of eight rows in steps; a step has 32 slots for each row, ``panel_ptr`` int32[panels+1] counts steps.

    Shared memory delivers 16 bytes from each of eight groups of banks at a time, and row j of B lies in group j % 8.
    The slots of a row are read in rounds of eight. Its entries are dealt to rounds so that a round has at most one
    entry of a group as long as there are others: first come the first entries of all groups, then the second ones, and
    so on. A panel has as many steps as its longest row needs. Slots behind the last entry of a row have the column k,
    behind the last row of B, and value zero.

    The order of slots in memory is that in which the lanes of a warp take them. Slot s of round r of row g of a step is
    ``columns``[step, 8·r + s, g], uint16, the address that lane 8·r + s gives to ``ldmatrix``, and
    ``data``[step, g, 8·(s//2) + 2·r + s%2], in the fragment of ``mma.m16n8k16`` of lane 4·g + s//2. A step behind those
    of the last panel is there to be loaded ahead.
    """

    name: ClassVar[str] = "banked_8x32"
    holds_any: ClassVar[bool] = False
    count_names: ClassVar[tuple[str, ...]] = (*Format.count_names, "panels")
    packer: ClassVar[str | None] = "banked"

    panel_ptr: Int32
    columns: UInt16
    data: Values

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float16", packer: Packer | None = None) -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`.

        Raises :class:`FormatError` for more than 65,535 columns, and for 2²³ steps or more.
        """
        m, k, xp = int(a.shape[0]), int(a.shape[1]), array_module(a.data)
        if k > MOST_COLUMNS:
            raise FormatError(f"{cls.name} has columns of 16 bits, too short for {k:,} of them; csr holds any number")
        steps = xp.zeros(ceil_div(m, PANEL) * PANEL, dtype=xp.int64)
        steps[:m] = (xp.diff(a.indptr.astype(xp.int64)) + SLOTS - 1) // SLOTS
        panel_ptr = xp.zeros(len(steps) // PANEL + 1, dtype=xp.int64)
        panel_ptr[1:] = xp.cumsum(steps.reshape(-1, PANEL).max(axis=1)) if m else 0
        count = int(panel_ptr[-1])
        if count > MOST_STEPS:
            raise FormatError(f"{cls.name} counts slots with 32 bits, too few for {count:,} steps")
        columns = xp.full((count + 1, SLOTS, PANEL), k, dtype=xp.uint16)
        values = rounded(a.data, dtype)
        data = xp.zeros((count + 1, PANEL, SLOTS), dtype=values.dtype)
        if a.nnz and xp.__name__ == "numpy":
            row, slot, entries = _slots(a)
            step, round_, of_round = panel_ptr[row // PANEL] + slot // SLOTS, slot % SLOTS // ROUND, slot % ROUND
            columns[step, slot % SLOTS, row % PANEL] = a.indices[entries]
            data[step, row % PANEL, 8 * (of_round // 2) + 2 * round_ + of_round % 2] = values[entries]
        elif a.nnz:
            indptr, indices = (x.astype(xp.int32, copy=False) for x in (a.indptr, a.indices))
            arguments = indptr, indices, values, panel_ptr.astype(xp.int32), m, columns, data
            entry = f"deal_to_banks_{8 * values.itemsize}"
            cls.given(packer)(entry, ceil_div(m, WARPS), *arguments, threads=32 * WARPS)
        return cls((m, k), int(a.nnz), dtype, panel_ptr.astype(xp.int32), columns, data)

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, from the slots that are not zero."""
        xp = array_module(self.panel_ptr)
        stored = nonzero_slots(self.data)
        step, row, place = stored // (PANEL * SLOTS), stored // SLOTS % PANEL, stored % SLOTS
        slot = place % 8 // 2 * ROUND + place // 8 * 2 + place % 2
        panel = row_of_entry(self.panel_ptr.astype(xp.int64), len(self.data))[step]
        columns = self.columns[step, slot, row].astype(xp.int64)
        values = widened(self.data, self.dtype).reshape(-1)[stored]
        return csr_of_entries(panel * PANEL + row, columns, values, self.shape)

    @property
    def stored_slots(self) -> int:
        return self.blocks * PANEL * SLOTS

    @property
    def blocks(self) -> int:
        """Steps."""
        return len(self.data) - 1

    @property
    def panels(self) -> int:
        """Panels of eight rows."""
        return len(self.panel_ptr) - 1

    def counts(self) -> dict[str, int]:
        return super().counts() | {"panels": self.panels}


def _slots(a: Any) -> tuple[Any, Any, Any]:
    """Row and slot, int64[nnz] each, of the entries of a host CSR in a third array, row by row and slot by slot."""
    import numpy as np

    indptr = a.indptr.astype(np.int64)
    row, bank = row_of_entry(indptr, a.nnz), a.indices.astype(np.int64) % ROUND
    by_bank = np.argsort(row * ROUND + bank, kind="stable")
    key = (row * ROUND + bank)[by_bank]
    # Whether an entry is the first of its row in its group, the second, …
    turn = np.arange(a.nnz, dtype=np.int64) - np.searchsorted(key, key)
    entries = by_bank[np.argsort((row[by_bank] * (turn.max() + 1) + turn) * ROUND + bank[by_bank])]
    return row, np.arange(a.nnz, dtype=np.int64) - indptr[row], entries


FORMAT = Banked8x32
