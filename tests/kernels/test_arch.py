"""One function names the compiler's target, another the machine code that a device runs."""

import pytest

from spmm_roofline.kernels import cubins, ship
from spmm_roofline.kernels.arch import major, obstacle, supports, target
from spmm_roofline.kernels.registry import of_study
from spmm_roofline.measure.device import Gpu
from spmm_roofline.paths import KERNELS


@pytest.mark.parametrize(
    ("capability", "arch"),
    [((8, 0), "sm_80"), ((8, 9), "sm_89"), ((9, 0), "sm_90a"), ((10, 0), "sm_100"), ((12, 0), "sm_120")],
)
def test_the_target_of_a_device(capability, arch):
    assert target(capability) == Gpu("", "", capability, "").arch == arch
    assert major(arch) == capability[0]


def test_an_architecture_specific_target_runs_on_itself_alone():
    assert supports("sm_90a", "sm_90a") and not supports("sm_100", "sm_90a") and not supports("sm_90", "sm_90a")
    assert obstacle("sm_80", "sm_89", ["mma_f8"]) == "needs sm_89" and not obstacle("sm_90a", "sm_89", ["mma_f8"])
    assert "emulates on sm_90a" in obstacle("sm_90a", "sm_89", ["ldmatrix", "mma_sp_f8"])
    assert not obstacle("sm_89", "sm_89", ["mma_sp_f8"]) and not obstacle("sm_120", "sm_89", ["mma_sp_f8"])
    assert supports("sm_100", "sm_80") and not supports("sm_80", "sm_89") and supports("sm_80", None)


def test_a_wheel_carries_code_for_targets_that_can_run_it(monkeypatch, tmp_path):
    monkeypatch.setattr(ship, "cubin_of", lambda *_: (b"code",))
    monkeypatch.setattr(ship, "ptx_of", lambda *_: b"code")
    heads = of_study("flagship", KERNELS)
    for name, archs in (("panel_f16", {"sm_90a"}), ("window_f16", {*cubins.SHIPPED, cubins.PTX})):
        ship._write(heads[name], tmp_path / name)
        assert {path.name for path in (tmp_path / name).iterdir()} == archs


@pytest.fixture
def head():
    return of_study("flagship", KERNELS)["window_f16"]


@pytest.fixture
def folder(tmp_path, head):
    """What a wheel carries of one kernel."""
    (tmp_path / cubins.TOOLKIT).write_text("13000\n")
    for arch in (*cubins.SHIPPED, cubins.PTX):
        (tmp_path / arch).mkdir()
        (tmp_path / arch / cubins.file_name(head, "ptx" if arch == cubins.PTX else "cubin")).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("arch", "driver", "found"),
    [
        ("sm_80", 13000, "sm_80"),
        ("sm_86", 13000, "sm_80"),
        ("sm_89", 13020, "sm_89"),
        ("sm_90a", 13000, "sm_90a"),
        ("sm_100", 13000, "compute_80"),
        ("sm_120", 14000, "compute_80"),
        ("sm_75", 13000, None),
        ("sm_90a", 12080, None),
    ],
)
def test_a_device_gets_the_shipped_code_that_it_runs(folder, head, monkeypatch, arch, driver, found):
    monkeypatch.setattr(cubins, "_compiler_is_here", lambda: False)
    path = cubins.shipped(head, arch, driver, folder)
    assert (path.parent.name if path else None) == found


def test_a_compiler_makes_better_code_for_a_new_device_than_ptx(folder, head, monkeypatch):
    monkeypatch.setattr(cubins, "_compiler_is_here", lambda: True)
    assert cubins.shipped(head, "sm_120", 13000, folder) is None
    assert cubins.shipped(head, "sm_90a", 13000, folder) is not None


def test_other_source_is_not_served_by_shipped_code(folder, head):
    other = of_study("flagship", KERNELS)["window_f16_bf16"]
    assert cubins.shipped(other, "sm_90a", 13000, folder) is None
