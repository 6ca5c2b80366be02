"""Copies what the library reads beside its code (contracts, kernels, templates, model, machine code) into the wheel.

In a checkout these lie where people look for them, outside the package; ``spmm_roofline/paths.py`` knows both places.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

#: Path in the checkout → path in the installed package's ``data``.
DATA = {
    "workflow/schemas": "schemas",
    "kernels": "kernels",
    "report": "report",
    "resources/selector.json": "selector.json",
    "resources/costs.json": "costs.json",
    "build/cubins": "cubins",
}


class BuildWithData(build_py):
    """The usual build, and the data; an editable install finds them in the checkout."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for source, name in DATA.items():
            target = Path(self.build_lib) / "spmm_roofline" / "data" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if Path(source).is_dir():
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(source, target)
            elif Path(source).is_file():
                shutil.copyfile(source, target)


setup(cmdclass={"build_py": BuildWithData})
