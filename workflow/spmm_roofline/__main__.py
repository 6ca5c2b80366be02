"""``python -m spmm_roofline``: the command ``spmm-roofline`` where the package is not installed."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
