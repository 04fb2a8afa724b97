# SPDX-License-Identifier: Apache-2.0
"""Generates the stubs of the protocol when the package is built; they are not in the repository."""

import os
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
IN_TREE = HERE / "../../api/polycube/service/v1/service.proto"
IN_SDIST = HERE / "service.proto"


def protocol() -> Path:
    """The path of the definition: in the repository, or next to this file in a source distribution."""
    return IN_TREE if IN_TREE.exists() else IN_SDIST


class BuildStubs(build_py):
    """Compiles the protocol into polycube._api."""

    def run(self) -> None:
        from grpc_tools import protoc

        super().run()
        out = Path(self.build_lib)
        api = out / "polycube" / "_api"
        api.mkdir(parents=True, exist_ok=True)
        (api / "__init__.py").write_text('"""Generated from service.proto."""\n')
        well_known = os.path.join(os.path.dirname(protoc.__file__), "_proto")
        status = protoc.main(
            [
                "protoc",
                f"-Ipolycube/_api={protocol().parent.resolve()}",
                f"-I{well_known}",
                f"--python_out={out}",
                f"--pyi_out={out}",
                f"--grpc_python_out={out}",
                "polycube/_api/service.proto",
            ]
        )
        if status != 0:
            raise SystemExit(f"compiling service.proto: protoc ended with {status}")


class SourceWithProtocol(sdist):
    """Adds the definition to a source distribution, which is built outside the repository."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        shutil.copyfile(protocol(), Path(base_dir) / "service.proto")


setup(cmdclass={"build_py": BuildStubs, "sdist": SourceWithProtocol})
