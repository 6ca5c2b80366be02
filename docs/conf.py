"""Documentation site: `make docs` builds it into docs/_build/html, without the network."""

import sys
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import MagicMock

if find_spec("torch") is None:  # optional, and large; its operators are documented all the same
    sys.modules["torch"] = MagicMock()
    sys.modules["torch.autograd"] = sys.modules["torch"].autograd
    sys.modules["torch"].autograd.Function = type("Function", (), {"apply": None})
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

import spmm_roofline

project = "spmm-roofline"
author = copyright = "The spmm-roofline authors"
version = release = spmm_roofline.__version__
html_title = f"spmm-roofline {release}"

extensions = [
    "myst_nb",
    "numpydoc",
    "pictures",  # in this folder
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
suppress_warnings = ["myst.xref_ambiguous"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
#: A notebook that fails, fails the build.
nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True

numpydoc_show_class_members = False
autodoc_typehints = "none"  # numpydoc's sections name the types
autodoc_member_order = "bysource"

html_theme = "furo"
html_static_path = ["style"]
html_css_files = ["site.css"]
html_show_sphinx = False
