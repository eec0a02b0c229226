#!/usr/bin/env python3
"""The package of Debian: its fields, what lintian says, and that nothing stays when it is removed. Builds no program."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from harness import OCTET, SECONDS, SMALL, Case, main, with_settings

BUILD = pathlib.Path(OCTET).resolve().parent


def said(*command):
    """What a command that must succeed prints."""
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=SECONDS, check=False,
                           stdin=subprocess.DEVNULL)
    if ended.returncode != 0:
        raise AssertionError(f"{command} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


class Package(Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="octet-package-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        said("cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", cls.folder)
        cls.package, = cls.folder.glob("octet_*.deb")

    def field(self, name):
        return said("dpkg-deb", "--field", self.package, name).strip()

    def test_fields(self):
        version = re.match(r"octet (\S+)", said(OCTET, "--version"))[1]
        self.assertEqual([self.field(name) for name in ("Package", "Version", "Section", "Recommends")],
                         ["octet", version, "science", "openmpi-bin, libpangoft2-1.0-0, fonts-dejavu-core"])
        for library in r"libc6 \(>= ", r"libopenmpi", r"libyaml-cpp", r"libpng16":
            self.assertRegex(self.field("Depends"), library)
        self.assertRegex(self.field("Maintainer"), r"^.+ <\S+@\S+>$")
        said("apt-get", "install", "--simulate", self.package)

    def test_lintian_finds_no_error(self):
        if shutil.which("lintian") is None:
            self.skipTest("lintian is not installed: launch/setup.sh --dev installs it")
        ended = subprocess.run(["lintian", "--fail-on", "error", "--allow-root", self.package], capture_output=True,
                               text=True, timeout=SECONDS, check=False)
        print(ended.stdout)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)

    def test_the_program_in_it_trains(self):
        said("dpkg-deb", "--extract", self.package, self.directory / "root")
        usr = self.directory / "root/usr"
        recipe = usr / "share/octet/configs/shapes_resnet20_unified_int8.yaml"
        job = self.launch([usr / "bin/octet", "train", recipe, "--run", self.run_path("five"),
                           *with_settings({**SMALL, "train.steps": 5})])
        self.expect(job, 0)
        self.assertEqual(self.result("five")["steps"], 5)

    @unittest.skipUnless(os.geteuid() == 0, "dpkg installs for root alone")
    def test_nothing_stays_after_removal(self):
        root, database = self.directory / "root", self.directory / "root/var/lib/dpkg"
        for folder in "info", "updates", "triggers":
            (database / folder).mkdir(parents=True)
        (database / "status").touch()
        dpkg = ["dpkg", f"--root={root}", "--force-depends", "--force-script-chrootless", "--log=/dev/null"]

        def files():
            return [path for path in root.rglob("*") if path.is_file() and database not in path.parents]
        said(*dpkg, "--install", self.package)
        self.assertGreater(len(files()), 60)
        said(*dpkg, "--purge", "octet")
        self.assertEqual(files(), [])


if __name__ == "__main__":
    main()
