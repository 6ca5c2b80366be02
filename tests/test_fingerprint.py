"""Fingerprints: which edits change them and which do not."""

import pytest

from spmm_roofline.fingerprint import (
    c_code,
    import_closure,
    modules,
    of_folder,
    python_code,
    sha256,
    without_c_comments,
)

SOURCE = """\
#include "ptx/mma.cuh"
#define TILE 16
// one warp
extern "C" __global__ void k(const half *a, int n) {
    int i = threadIdx.x * 2; /* lane */
    asm volatile("mov.u32 %0, 1'000;" : "=r"(i));
}
"""


@pytest.mark.parametrize(
    "edited",
    [
        pytest.param(SOURCE.replace("one warp", "a warp of 32 lanes"), id="comment"),
        pytest.param(SOURCE.replace("// one warp\n", ""), id="comment-removed"),
        pytest.param(SOURCE.replace("// one warp", "// one \\\n warp of 32 lanes"), id="comment-continued"),
        pytest.param(SOURCE.replace(" /* lane */", "\n\n"), id="block-comment"),
        pytest.param(SOURCE.replace("    ", "\t\t"), id="indentation"),
        pytest.param(SOURCE.replace("(const half *a, int n) {", "(const half* a,\n    int n)\n{"), id="layout"),
        pytest.param(SOURCE.replace("threadIdx.x * 2", "threadIdx.x*2"), id="blanks"),
        pytest.param(SOURCE.replace("#define TILE 16", "#define TILE   16"), id="directive-blanks"),
        pytest.param(SOURCE.replace("#define TILE 16", "#define TILE \\\n 16"), id="directive-continued"),
        pytest.param(SOURCE.replace("\n", "\r\n"), id="line-ends"),
    ],
)
def test_comments_and_layout_leave_the_c_code_alone(edited):
    assert edited != SOURCE
    assert c_code(edited) == c_code(SOURCE), "an edit that changes no instruction changed the normal form"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("threadIdx.x * 2", "threadIdx.x * 3"),
        ("TILE 16", "TILE 32"),
        ("mov.u32 %0", "mov.u32  %0"),
        ("int n", "long n"),
        ("ptx/mma", "ptx/ldmatrix"),
    ],
)
def test_an_edit_of_the_code_changes_it(old, new):
    assert old in SOURCE
    assert c_code(SOURCE.replace(old, new)) != c_code(SOURCE), f"replacing {old!r} by {new!r} went unnoticed"


@pytest.mark.parametrize(
    "literal",
    ['"a // b"', '"a /* b */ c"', r'"\" // b"', 'R"(say "hi" // there)"', 'R"x(a )" /* b */ )x"', "'\"'", r"'\''"],
)
def test_a_comment_within_a_literal_is_text(literal):
    assert without_c_comments(f"f({literal}); // gone") == f"f({literal});  "


def test_a_literal_may_hold_a_directive_and_blanks_that_count():
    raw = 'R"(\n#define  X\n)"'
    assert c_code(f"f( {raw} );") == f"f ( {raw} ) ;"


def test_a_quote_may_separate_digits():
    assert without_c_comments("int n = 1'000; // it's a thousand\nint m;") == "int n = 1'000;  \nint m;"


def test_tokens_are_neither_joined_nor_torn():
    assert c_code("a + ++b") != c_code("a++ + b")
    assert c_code("x = 1.5e-3f;") == "x = 1.5e-3f ;"
    assert c_code("k<<<grid,block>>>(a->x);") == "k <<< grid , block >>> ( a -> x ) ;"
    assert c_code("#define A 1\nint b;") != c_code("#define A 1 int b;")
    assert c_code("#define f(x) x") != c_code("#define f (x) x"), "the second one defines a macro without arguments"


PYTHON = '''\
"""Module."""
class Case:
    """A case."""
    def time(self, n):
        """Milliseconds."""
        # two per lane
        return n * 2
'''


@pytest.mark.parametrize(
    "edited",
    [
        PYTHON.replace("Module.", "The module."),
        PYTHON.replace('    """A case."""\n', ""),
        PYTHON.replace("# two per lane", "# changed"),
        PYTHON.replace("n * 2", "(n*2)"),
        PYTHON.replace("return", '"a text that does nothing"\n        return'),
    ],
)
def test_docstrings_comments_and_layout_leave_the_python_code_alone(edited):
    assert edited != PYTHON
    assert python_code(edited) == python_code(PYTHON), "an edit that changes no statement changed the normal form"


@pytest.mark.parametrize("edited", [PYTHON.replace("n * 2", "n * 3"), PYTHON.replace("return n", 'return "n"')])
def test_an_edit_of_a_statement_changes_it(edited):
    assert python_code(edited) != python_code(PYTHON)


def test_a_function_of_a_docstring_alone_stays_a_function():
    assert python_code('def f():\n    """Nothing."""') == python_code("def f():\n    pass")


def test_the_normal_form_names_no_empty_field():
    """Python 3.12 added `type_params=[]` to functions, 3.13 stopped printing it: neither may change a fingerprint."""
    assert python_code("def f(): return None") == (
        "Module(body=[FunctionDef(name='f', args=arguments(), body=[Return(value=Constant())])])"
    )


def test_sha256_keeps_parts_apart_and_ignores_the_order_of_keys():
    assert sha256("ab", "c") != sha256("a", "bc"), "the parts ran together"
    assert sha256({"a": 1, "b": 2}) == sha256({"b": 2, "a": 1})
    assert sha256(b"x") == sha256("x")
    assert len(sha256()) == 64


def test_modules_on_disk(tmp_path):
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("x = 1\n")
    two.write_text("x = 1  # the same\n")
    assert modules(one) == modules(two)
    two.write_text("x = 2\n")
    assert modules(one) != modules(two)
    assert modules(one, two) != modules(two, one), "the order of the modules is part of the fingerprint"


def test_the_import_closure_follows_relative_imports_within_a_folder(tmp_path):
    package = tmp_path / "package"
    (package / "sub").mkdir(parents=True)
    files = {
        "sub/a.py": "from . import b\nfrom .c import x as y\nimport os\n",
        "sub/b.py": "def f():\n    from ..d import z\n",
        "sub/c.py": "from .transfer import fetch\n",
        "sub/transfer.py": "",
        "sub/other.py": "",
        "d.py": "from . import sub\nfrom ...outside import w\n",
    }
    for name, text in files.items():
        (package / name).write_text(text)
    (tmp_path / "outside.py").write_text("")
    found = import_closure(package / "sub/a.py", package)
    assert [path.name for path in found] == ["d.py", "a.py", "b.py", "c.py", "transfer.py"]
    assert package / "sub/transfer.py" not in import_closure(package / "sub/a.py", package, without=["transfer"])


def test_a_folder_is_the_names_and_the_bytes_of_its_files(tmp_path):
    (tmp_path / "h100").mkdir()
    (tmp_path / "h100/rows.csv").write_text("a")
    before = of_folder(tmp_path)
    (tmp_path / "h100/rows.csv").touch()
    assert of_folder(tmp_path) == before
    (tmp_path / "h100/rows.csv").write_text("b")
    changed = of_folder(tmp_path)
    (tmp_path / "h100/rows.csv").rename(tmp_path / "h100/other.csv")
    assert len({before, changed, of_folder(tmp_path)}) == 3
