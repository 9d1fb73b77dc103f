"""The compiler under test, with a cache of its own."""

import pytest

from card import Compiler
from explorer.compiler.config import Config
from explorer.ir.program import BuildOptions


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    return Compiler(Config(build=BuildOptions(cache_dir=tmp_path_factory.mktemp("kernels"))))
