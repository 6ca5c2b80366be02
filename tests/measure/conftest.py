"""The device of tests of products, for tests of measuring."""

from tests.multiply.conftest import device  # noqa: F401
