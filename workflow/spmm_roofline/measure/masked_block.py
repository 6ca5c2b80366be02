"""Masked attention: what a sparse mask saves over computing every score.

O = softmax(Q·Kᵀ/√width at the entries of a mask)·V for every head, with the same mask for all heads. Implementations:

- ``ours``: :class:`spmm_roofline.MaskedAttention`, planned once for the mask;
- ``sdpa_mask``: PyTorch's ``scaled_dot_product_attention`` with the boolean mask, as PyTorch converts it in each call;
- ``flash``: the same function without the mask. It computes another result, attention to every key, and is compared
  with that: its time is the price of not using the mask;
- ``flex``: PyTorch's compiled ``flex_attention`` with a block mask made once.

Masks: ``window`` (a query attends to keys at most half the window away), ``blocks`` (square blocks of 64, each one kept
with this probability), ``random`` (entries, each one kept with this probability). The diagonal is always kept, so that
every query has a key. ``global`` adds tokens that attend to all and to which all attend, at the beginning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from ..kernels.launch import Unsupported
from ..multiply.attention import MaskedAttention
from . import block
from .block import Block, chosen_rows, softmax_attention, tensor_dtype

#: Rows and columns of a block of the masks ``blocks``.
SIDE = 64


def mask_of(kind: Mapping[str, Any], length: int) -> Any:
    """The mask, bool[length, length] on the device; the same for every call."""
    import torch

    seed = int.from_bytes(hashlib.sha256(repr(sorted(kind.items())).encode()).digest()[:4], "little")
    drawn = {"generator": torch.Generator(block.DEVICE).manual_seed(seed), "device": block.DEVICE}
    at = torch.arange(length, dtype=torch.int32, device=block.DEVICE)
    if "window" in kind:
        mask = (at[:, None] - at).abs_() <= kind["window"] // 2
    elif "blocks" in kind:
        blocks = -(-length // SIDE)
        kept = torch.rand((blocks, blocks), **drawn) < kind["blocks"]
        kept.fill_diagonal_(True)
        mask = kept.repeat_interleave(SIDE, 0).repeat_interleave(SIDE, 1)[:length, :length].contiguous()
    else:
        # In strips: random numbers for all entries at once would take four times the memory of the mask.
        strips = [torch.rand((len(rows), length), **drawn) < kind["random"] for rows in at.split(1024)]
        mask = torch.cat(strips).fill_diagonal_(True)
    tokens = kind.get("global", 0)
    mask[:tokens] = True
    mask[:, :tokens] = True
    return mask


def build(case: Mapping[str, Any]) -> Block:
    """A case of masked attention on the device, ready to run; its operands are (batch, heads, sequence, width)."""
    import torch

    length, dtype = case["sequence"], tensor_dtype(case["dtype"])
    mask = mask_of(case["mask"], length)
    shape = case["batch"], case["heads"], length, case["head_width"]
    q, k, v = (torch.empty(shape, dtype=dtype, device=block.DEVICE) for _ in range(3))
    run, known = IMPLEMENTATIONS[case["implementation"]](mask, q, k, v)
    nnz = int(mask.sum())
    known |= {"nnz": nnz, "sparsity_fraction": 1 - nnz / length**2}
    own = None if case["implementation"] == "flash" else mask
    elements = sorted({0, case["batch"] - 1})[: block.ELEMENTS_CHECKED]
    checked = chosen_rows(length)
    known["rows_checked"] = len(elements) * len(checked)

    def rows(output: Any) -> Any:
        return output[elements][:, :, checked].double().transpose(1, 2).flatten(0, 1).flatten(1)

    def expected() -> Any:
        found = torch.empty((len(elements), shape[1], len(checked), shape[3]), dtype=torch.float64, device=q.device)
        for number, element in enumerate(elements):
            queries, keys, values = (x[element].double() for x in (q[:, :, checked], k, v))
            found[number] = softmax_attention(queries, keys, values, None if own is None else own[checked])
        return found.transpose(1, 2).flatten(0, 1).flatten(1)

    return Block((q, k, v), run, rows, expected, known=known)


def _ours(mask: Any, q: Any, k: Any, v: Any) -> tuple[Any, dict[str, Any]]:
    import torch

    crow = torch.nn.functional.pad(mask.sum(1).cumsum(0), (1, 0))
    attend = MaskedAttention((crow, mask.nonzero()[:, 1]), shape=tuple(mask.shape))
    return lambda: attend(q, k, v), {"scores": attend.scores, "kernel": f"blocks of {attend.queries} queries"}


def _sdpa_mask(mask: Any, q: Any, k: Any, v: Any) -> tuple[Any, dict[str, Any]]:
    from torch.nn.functional import scaled_dot_product_attention

    return lambda: scaled_dot_product_attention(q, k, v, attn_mask=mask), {"scores": mask.numel()}


def _flash(mask: Any, q: Any, k: Any, v: Any) -> tuple[Any, dict[str, Any]]:
    from torch.nn.functional import scaled_dot_product_attention

    return lambda: scaled_dot_product_attention(q, k, v), {"scores": mask.numel()}


def _flex(mask: Any, q: Any, k: Any, v: Any) -> tuple[Any, dict[str, Any]]:
    import torch

    try:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    except ImportError as error:
        raise Unsupported(f"this PyTorch ({torch.__version__}) has no flex_attention") from error
    length = len(mask)
    blocks = create_block_mask(lambda b, h, i, j: mask[i, j], None, None, length, length, device=str(mask.device))
    compiled = torch.compile(flex_attention, dynamic=False)
    computed = int(blocks.kv_num_blocks.sum())
    if blocks.full_kv_num_blocks is not None:
        computed += int(blocks.full_kv_num_blocks.sum())
    rows, columns = blocks.BLOCK_SIZE
    return lambda: compiled(q, k, v, block_mask=blocks), {"scores": computed * rows * columns}


#: Implementation → function of mask, q, k and v that gives what runs and columns of the row.
IMPLEMENTATIONS = {"ours": _ours, "sdpa_mask": _sdpa_mask, "flash": _flash, "flex": _flex}
