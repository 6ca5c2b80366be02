"""The emulated device: what `make sanitize` finds."""

import subprocess

import pytest

from tests import emulation

#: A program whose first argument is what the threads of its CTA write: an array of 32 elements, 32 elements of shared
#: memory, the 128 bytes of dynamic shared memory that the launch asks for, or from some thread on an address between
#: two elements. The second one is where the first thread begins.
PROGRAM = """
#include "emulation.cuh"
extern char shared[];

__global__ void touch(int* array, int what, int i) {
    __shared__ int own[32];
    i += threadIdx.x;
    if (what == 0) array[i] = 1;
    if (what == 1) own[i] = 1;
    if (what == 2) reinterpret_cast<int*>(shared)[i] = 1;
    if (what == 3) *reinterpret_cast<int*>(reinterpret_cast<char*>(array) + i / 32) = 1;
}

int main(int, char** given) {
    std::vector<int> array(32);
    const unsigned sizes[] = {1, 1, 1, 32, 1, 1, 128};
    int *data = array.data(), what = std::atoi(given[1]), i = std::atoi(given[2]);
    void* arguments[] = {&data, &what, &i};
    emulation::launch(touch, sizes, arguments);
}
"""

ACCESSES = ["array", "shared memory", "dynamic shared memory", "address"]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The program, compiled with the sanitizers."""
    emulation.need_compiler()
    found = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout
    if "/" not in found:
        pytest.skip("g++ is here without the library of its sanitizers")
    folder = tmp_path_factory.mktemp("program")
    source, program = folder / "program.cpp", folder / "program"
    source.write_text(PROGRAM)
    include = emulation.INCLUDE
    given = [f"-I{include}", source, include / emulation.SCHEDULER, "-o", program]
    emulation.compiled([*emulation.SANITIZERS, *given], source.name)
    return program


@pytest.mark.parametrize("what", range(len(ACCESSES)), ids=ACCESSES)
def test_sanitizers_end_a_kernel_that_accesses_what_it_must_not(program, what):
    def run(first):
        traced = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
        return subprocess.run([program, str(what), str(first)], capture_output=True, text=True, env=traced)

    right, wrong = run(0), run(1)
    assert right.returncode == 0, right.stderr
    assert wrong.returncode != 0
    assert "touch" in wrong.stderr
