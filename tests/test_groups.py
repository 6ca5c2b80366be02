"""Tests of a group run in one process, which builds their fixtures once."""

import pytest


@pytest.mark.xdist_group("together")
def test_a_group_stays_together(request):
    # pytest-xdist schedules by this suffix, and says nothing where it cannot add it.
    if hasattr(request.config, "workerinput"):
        assert request.node.nodeid.endswith("@together"), "pytest-xdist does not know this pytest's node ids"
