"""``python -m spmm_roofline advise …``: the command ``spmm-roofline`` where the package is not installed."""

from .advise import main

if __name__ == "__main__":
    raise SystemExit(main())
