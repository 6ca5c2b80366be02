"""The rehearsal of measuring, on the emulated device."""

import sys
from contextlib import contextmanager

import pytest
from scipy.sparse import csr_array

from spmm_roofline.kernels import registry
from spmm_roofline.measure import rehearse, worker
from spmm_roofline.run_config import QUICK, resolved, suite_document


@pytest.fixture
def packed(monkeypatch, device):
    """Kernels whose A was packed and whose product was judged; the emulation has no cuSPARSE for the reference."""
    seen = set()
    act = rehearse._act

    def recorded(subject, kernel):
        act(subject, kernel)
        seen.add(kernel.head.name)

    monkeypatch.setattr(rehearse, "_act", recorded)
    if device == "emulated":

        class Reference:
            def __init__(self, a):
                self.a = csr_array((a.data.get(), a.indices.get(), a.indptr.get()), shape=a.shape)

            def product(self, b):
                return sys.modules["cupy"].asarray(self.a @ b.get())

        monkeypatch.setattr(worker, "Reference", Reference)
        monkeypatch.setattr(rehearse, "reduce_without_cub", lambda: None)
    return seen


def test_every_kernel_of_the_first_run_is_rehearsed(packed):
    said = []
    for number in range(3):
        rehearse.part(number, 3, said.append)
    assert not said
    studies = {head.name: head.study for head in registry.heads().values()}
    wanted, _ = resolved(suite_document(QUICK)["kernels"], studies)
    assert len(wanted) > 50 and wanted <= packed


def test_what_its_processes_say_is_said(monkeypatch):
    monkeypatch.setattr(rehearse.sys, "executable", "/bin/echo")
    monkeypatch.setattr(rehearse, "PROCESSES", 2)
    monkeypatch.setattr(rehearse.forked, "processors", lambda: 3)
    assert rehearse._said_by_parts() == [f"-m spmm_roofline.measure.rehearse 2 {number}" for number in range(2)]


def test_it_leases_a_gpu_and_its_log_has_what_was_said(monkeypatch, tmp_path):
    leased = []

    @contextmanager
    def lease(log):
        leased.append(True)
        yield
        leased.clear()

    monkeypatch.setattr(rehearse, "lease", lease)
    monkeypatch.setattr(rehearse, "_said_by_parts", lambda: ["rehearsal of x: Error"] if leased else [])
    rehearse.rehearse(tmp_path / "log")
    assert (tmp_path / "log").read_text() == "rehearsal of x: Error\n" and not leased


@pytest.mark.gpu
def test_the_whole_rehearsal_has_nothing_to_say():
    assert not rehearse._said_by_parts()
