#!/usr/bin/env python3
"""What `cmake --install` leaves: it runs in any folder, with no environment, and knows nothing of the build."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from harness import OCTET, ROOT, SECONDS, SMALL, Case, main, with_settings

BUILD = pathlib.Path(OCTET).resolve().parent
MAN = shutil.which("man.REAL") or "man"  # images of Ubuntu have another program under the name


def said(*command, **options):
    """What a command that must succeed prints; standard error must be empty."""
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=SECONDS, check=False,
                           stdin=subprocess.DEVNULL, **options)
    if ended.returncode != 0 or ended.stderr:
        raise AssertionError(f"{command} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def commands():
    return re.findall(r"^  (\w+) +\S", said(OCTET, "--help").partition("Subcommands:")[2], re.MULTILINE)


def options_of(command):
    return set(re.findall(r"^ +(--[a-z-]+)", said(OCTET, command, "--help"), re.MULTILINE))


def keys():
    return re.findall(r"^([a-z0-9_.]+)  ", said(OCTET, "help", "keys"), re.MULTILINE)


class Installed(Case):
    @classmethod
    def setUpClass(cls):
        cls.prefix = pathlib.Path(tempfile.mkdtemp(prefix="octet-prefix-"))
        cls.addClassCleanup(shutil.rmtree, cls.prefix)
        manifest = BUILD / "install_manifest.txt"  # by which a developer may remove an installation of this build
        before = manifest.read_bytes() if manifest.exists() else None
        said("cmake", "--install", BUILD, "--prefix", cls.prefix, "--strip")
        cls.listed = manifest.read_text().split()
        if before is None:
            manifest.unlink()
        else:
            manifest.write_bytes(before)
        cls.program, cls.share = cls.prefix / "bin/octet", cls.prefix / "share"

    def run_there(self, *words):
        """As somebody who has just logged in somewhere else."""
        return said(self.program, *words, env={"HOME": str(self.directory)}, cwd=self.directory)


class Files(Installed):
    def test_the_program_runs_without_an_environment(self):
        self.assertEqual(self.run_there("--version"), said(OCTET, "--version"))
        self.assertEqual(self.run_there("help", "train"), said(OCTET, "help", "train"))
        recipes = self.share / "octet/configs"
        self.assertIn("272474 parameters", self.run_there("plan", recipes / "shapes_resnet20_unified_int8.yaml"))
        self.assertIn("to do", self.run_there("study", recipes / "studies/table2_overhead.yaml", "--list"))

    def test_every_recipe_is_there(self):
        def names(folder):
            return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.yaml"))
        self.assertEqual(names(self.share / "octet/configs"), names(ROOT / "configs"))

    def test_the_manifest_lists_every_file(self):
        """By it an installation is removed."""
        self.assertEqual(sorted(self.listed), sorted(str(path) for path in self.prefix.rglob("*") if path.is_file()))

    def test_nothing_names_the_build(self):
        here = [str(path).encode() for path in (BUILD, ROOT / "src", ROOT / "kernels", ROOT / "comm", ROOT / "build")]
        files = [path for path in self.prefix.rglob("*") if path.is_file()]
        self.assertGreater(len(files), 60)
        for file in files:
            content = file.read_bytes()
            for path in here:
                self.assertNotIn(path, content, file)
        self.assertNotRegex(said("readelf", "--dynamic", self.program), "RPATH|RUNPATH")
        libraries = said("ldd", self.program)
        self.assertNotIn("not found", libraries)
        self.assertNotIn(str(BUILD), libraries)
        self.assertLessEqual(len(libraries.splitlines()), 40, libraries)

    def test_scripts_find_the_program(self):
        script = self.share / "octet/launch/mpirun.sh"
        kept = {name: value for name, value in os.environ.items() if name != "OCTET"}
        words = said(script, "-n", "2", "--dry-run", "train", "mine.yaml", env=kept, cwd=self.directory).split()
        self.assertEqual(words[-3:], [str(self.program), "train", "mine.yaml"])
        recipe = self.share / "octet/configs/shapes_resnet20_unified_int8.yaml"
        settings = with_settings({**SMALL, "train.steps": 2})
        self.expect(self.launch(["env", "-u", "OCTET", script, "-n", 2, "train", recipe, "--run", self.run_path("two"),
                                 *settings]), 0)
        self.assertEqual(self.result("two")["ranks"], 2)


class Manual(Installed):
    def test_it_is_valid_and_complete(self):
        page = self.prefix / "share/man/man1/octet.1"
        text = said(MAN, "--warnings", "-E", "UTF-8", "-l", page,
                    env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "MANWIDTH": "120", "MAN_KEEP_FORMATTING": ""})
        text = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", text)
        self.assertEqual(re.findall(r"^[A-Z][A-Z ]+$", text, re.MULTILINE),
                         ["NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "CONFIGURATION KEYS", "EXIT STATUS", "FILES",
                          "EXAMPLES", "SEE ALSO"])
        chapter = {title: body for title, body in re.findall(r"^([A-Z][A-Z ]+)\n(.*?)(?=^[A-Z]|\Z)", text, re.M | re.S)}
        self.assertGreater(len(commands()), 10)
        parts = re.split(r"^   octet (\w+)$", chapter["COMMANDS"], flags=re.MULTILINE)
        described = dict(zip(parts[1::2], parts[2::2]))
        self.assertEqual(list(described), commands())
        for command in commands():
            self.assertIn(f"octet {command} ", chapter["SYNOPSIS"])
            named = set(re.findall(r"^ {7}(--[a-z-]+)", described[command], re.MULTILINE))
            self.assertEqual(named, options_of(command), command)
        self.assertEqual(re.findall(r"^ {7}([a-z0-9_.]+)(?:$| {2})", chapter["CONFIGURATION KEYS"], re.MULTILINE), keys())
        self.assertRegex(chapter["CONFIGURATION KEYS"], r"model\.name\n.*\n +Values: .*resnet20, ")
        codes = re.findall(r"^ {7}(\d+) ", chapter["EXIT STATUS"], re.MULTILINE)
        self.assertEqual(codes, re.findall(r"^ *(\d+) ", said(OCTET, "train", "--help").partition("Exit codes")[2], re.M))

    def test_examples_use_what_there_is(self):
        page = (self.prefix / "share/man/man1/octet.1").read_text().replace("\\-", "-")
        examples = re.findall(r"^\\fB(?:mpirun -n 2 )?octet (.*)\\fR$", page.partition(".SH EXAMPLES")[2], re.MULTILINE)
        self.assertGreater(len(examples), 5)
        for example in examples:
            command = example.split()[0]
            self.assertIn(command, commands())
            self.assertLessEqual(set(re.findall(r"--[a-z-]+", example)), options_of(command) | {"--set"}, example)


class Completion(Installed):
    def bash(self, *words):
        """What bash offers for the last of these words, which it divides at `=`."""
        divided = [part for word in words for part in re.findall(r"=|[^=]+|^$", word)]
        script = ('source "$0"; COMP_WORDS=(octet "$@"); COMP_CWORD=$#; _octet; '
                  'if [ ${#COMPREPLY[@]} -gt 0 ]; then printf "%s\\n" "${COMPREPLY[@]}"; fi')
        return said("bash", "-c", script, self.share / "bash-completion/completions/octet", *divided,
                    cwd=self.directory).splitlines()

    def test_bash(self):
        said("bash", "-n", self.share / "bash-completion/completions/octet")
        (self.directory / "mine.yaml").touch()
        (self.directory / "folder with blanks").mkdir()
        names = re.search(r"Names for model.name: (.*)", said(OCTET, "help", "keys"))[1].split(", ")
        for words, offered in (
                ([""], commands() + ["--help", "--version"]),
                (["tr"], ["train"]),
                (["train", "m"], ["mine.yaml"]),
                (["train", "mine.yaml", "--re"], ["--resume"]),
                (["train", "mine.yaml", "--run", "f"], ["folder with blanks"]),
                (["train", "mine.yaml", "--run", "m"], []),
                (["train", "mine.yaml", "--run=f"], ["folder with blanks"]),
                (["train", "mine.yaml", "--fitting-ranks", ""], []),
                (["train", "mine.yaml", "--set", ""], [key + "=" for key in keys()]),
                (["train", "mine.yaml", "--set", "train.l"], ["train.lr=", "train.label_smoothing=", "train.log_every_steps="]),
                (["train", "mine.yaml", "--set", "model.name="], names),
                (["train", "mine.yaml", "--set", "model.name=resnet1"], [name for name in names if "resnet1" in name]),
                (["train", "mine.yaml", "--set=comm.exchange=e"], ["exact"]),
                (["train", "--set", "train.nesterov=", ], ["true", "false"]),
                (["train", "--set", "model.initial_weights=m"], ["mine.yaml"]),
                (["train", "--set", "train.lr=0.1", "m"], ["mine.yaml"]),
                (["bench", "k"], ["kernels"]),
                (["export", "runs/first", "--for", "t"], ["tensorrt"]),
                (["draw", "mine.yaml", "--split", ""], ["train", "test"]),
                (["make", ""], ["shapes"]),
                (["make", "shapes", "f"], ["folder with blanks"]),
                (["predict", "runs/first", "a.jpg", "m"], ["mine.yaml"]),
                (["help", "policy.l"], [key for key in ["policy.lr_scale"] + keys() if key.startswith("policy.l")]),
                (["help", "--completion", ""], ["bash", "zsh"])):
            with self.subTest(words):
                self.assertEqual(sorted(self.bash(*words)), sorted(offered))
        for command in commands():
            self.assertEqual(set(self.bash(command, "-")), options_of(command) | {"--help"}, command)

    def test_zsh(self):
        script = self.share / "zsh/site-functions/_octet"
        said("zsh", "-n", script)
        stand_ins = 'compdef() { : }; compadd() { print -l -- "$@" }; source $0; '
        offered = said("zsh", "-fc", stand_ins + "_octet_value model.name", script).split()
        self.assertEqual(offered, re.search(r"Names for model.name: (.*)", said(OCTET, "help", "keys"))[1].split(", "))
        for table, names in ("commands", commands()), ("keys", keys()):
            rows = said("zsh", "-fc", stand_ins + f"print -l -- $_octet_{table}", script).splitlines()
            self.assertEqual([row.partition(":")[0] for row in rows], names)


if __name__ == "__main__":
    main()
