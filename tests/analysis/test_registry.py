"""The registry of the analyses: what is declared, and in which order it is made."""

import pytest

from spmm_roofline import analysis, contracts
from spmm_roofline.analysis import registry
from spmm_roofline.analysis.registry import RegistryError, Step, ordered

#: What :func:`spmm_roofline.analysis.run` hands over.
GIVEN = {"files", "fingerprints", "heads", "resamples", "own", "model", "left_out"}
#: Contracts of tables that are read and not made.
READ = {"analysis_papers"}


def test_each_contract_of_the_stage_has_one_analysis():
    made = [contract for contract in analysis.tables().values() if contract.startswith("analysis_")]
    wanted = {name for name in contracts.names("tables") if name.startswith("analysis_")} - READ
    assert sorted(made) == sorted(wanted)


def test_each_table_is_called_as_its_contract():
    for name, contract in analysis.tables().items():
        assert contract in (name, f"analysis_{name}")


def test_what_is_read_is_made_before():
    made = set(GIVEN)
    for step in ordered(registry.steps(), GIVEN):
        assert set(step.inputs) <= made, f"{step.name} comes too early"
        made.add(step.name)
    assert made == GIVEN | registry.steps().keys()


def test_what_takes_long_begins_early():
    order = [step.name for step in ordered(registry.steps(), GIVEN)]
    slow = {step.name for step in registry.steps().values() if step.beside}
    assert slow == {"claims", "selector"}
    others = ("speedup", "roofline", "bounds", "together")
    assert max(order.index(name) for name in slow) < min(order.index(name) for name in others)


def steps(beside=(), **inputs):
    return {name: Step(name, print, tuple(wanted), beside=name in beside) for name, wanted in inputs.items()}


@pytest.mark.parametrize(
    ("found", "order"),
    [
        (steps(a=["b"], b=["files"]), ["b", "a"]),
        (steps(a=[], b=["c"], c=[], beside=["b"]), ["c", "b", "a"]),
        (steps(a=["c"], b=["a", "c"], c=[]), ["c", "a", "b"]),
    ],
)
def test_order(found, order):
    assert [step.name for step in ordered(found, {"files"})] == order


def test_a_circle_and_an_unknown_input_are_named():
    with pytest.raises(RegistryError, match="a → b → a"):
        ordered(steps(a=["b"], b=["a"]), GIVEN)
    with pytest.raises(RegistryError, match="'a' reads 'speed', which nothing makes"):
        ordered(steps(a=["speed"]), GIVEN)


def test_a_name_is_made_once():
    def speedup(cases):
        return cases

    registry.steps()
    with pytest.raises(RegistryError, match=r"both .*\.speedup and .*test_registry make 'speedup'"):
        registry.table()(speedup)
    assert registry.steps()["speedup"].make.__module__ == "spmm_roofline.analysis.speedup"
