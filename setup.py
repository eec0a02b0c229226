"""`pip install .`: CMake builds the module. Environment: OCTET_BUILD  the folder (default: build/python)."""

import os
import pathlib
import re
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parent
VERSION = re.search(r"project\(octet VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]


class CMakeBuild(build_ext):
    def build_extension(self, ext):
        build = pathlib.Path(os.environ.get("OCTET_BUILD", ROOT / "build/python"))
        place = pathlib.Path(self.get_ext_fullpath(ext.name)).resolve().parent
        if not (build / "CMakeCache.txt").exists():
            subprocess.run(["cmake", "--preset", "release", "-B", build, "-DOCTET_TESTS=OFF", "-DOCTET_PYTHON=ON",
                            f"-DPython_EXECUTABLE={sys.executable}"], check=True, cwd=ROOT)
        subprocess.run(["cmake", "--build", build, "--target", "octet_python"], check=True)
        subprocess.run(["cmake", "--install", build, "--component", "python", "--prefix", place, "--strip"], check=True)


setup(version=VERSION, packages=[], py_modules=[], ext_modules=[Extension("octet", sources=[])],
      cmdclass={"build_ext": CMakeBuild})
