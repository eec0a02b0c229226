#!/usr/bin/env python3
"""Checks that files and folders of this repository exist where documents, comments and messages name them.

Read are the back-ticked words and the code blocks of Markdown files, the comments of sources and scripts, and the
string literals of the product. A word is a path of this repository if it begins with one of its folders
(`src/main.cpp`, `kernels/cpu/`) or ends as its sources do. The latter may leave out folders in front, as in
`shared/random.h` and `random.h`. `*`, capitals and `<name>` stand for any text (`NAME.cpp`), `{a,b}` for each of its
parts.
"""
import fnmatch
import itertools
import os
import re
import sys

IGNORED = {"build", "data", "runs", "shared", "studies", "venv"}  # at the top: what builds and runs leave there
SOURCES = (".h", ".cpp", ".inc", ".cu", ".sh", ".py", ".sbatch", ".cmake", "CMakeLists.txt")
ELSEWHERE = {
    "pycocotools/cocoeval.py", "voc_eval.py",  # of other projects
    "src/version.h", "version.h",              # the build makes it
    "src/models/tiny.cpp",                     # the example in docs/extending.md
    "example.cpp",                             # the example in docs/library.md
    "findings/NAME.sh",                        # none has been written yet
}
C_TEXTS = (r"#include[^\n]*|'(?:\\.|[^'\\\n])'|"  # left out: includes, since they compile, and characters such as '"'
           r'(?P<string>"(?:\\.|[^"\\\n])*")|(?P<text>//[^\n]*|/\*.*?\*/)')
TEXTS = {
    ".md": r"(?P<text>^```.*?^```|`[^`]+`)",
    ".py": r'(?P<text>(?<!\S)#[^\n]*|""".*?""")',
    **dict.fromkeys((".h", ".cpp", ".inc", ".cu"), C_TEXTS),
    **dict.fromkeys((".sh", ".sbatch", ".cmake", ".txt", ".yaml", ".yml", "Dockerfile"), r"(?P<text>(?<!\S)#[^\n]*)"),
}


def listing():
    """Returns the paths of all files, and those of all folders with a slash at the end."""
    found = []
    for folder, folders, files in os.walk("."):
        folders[:] = [f for f in folders if f in (".ci", ".github") or not f.startswith((".", "__pycache__"))
                      and not (folder == "." and f in IGNORED)]
        found += [os.path.relpath(os.path.join(folder, f)) for f in files]
        found += [os.path.relpath(os.path.join(folder, f)) + "/" for f in folders]
    return found


def texts(name):
    """Yields the line number of each text of a file in which paths are looked for, and the text."""
    pattern = next((pattern for end, pattern in TEXTS.items() if name.endswith(end)), None)
    if pattern is None:
        return
    with open(name, encoding="utf-8") as file:
        content = file.read()
    for match in re.finditer(pattern, content, re.S | re.M):
        groups = match.groupdict()
        text = groups["text"] or (groups.get("string") if name.startswith(("kernels/", "comm/", "src/")) else None)
        if text:
            for number, row in enumerate(text.split("\n"), content.count("\n", 0, match.start()) + 1):
                yield number, row


def words(row):
    for match in re.finditer(r"(?<![\w./~$:}<-])[\w.*](?:[\w.*{},/+-]|<\w+>)*(:\d)?", row):
        if not match[1]:  # with a line it is in a message that another commit printed
            yield match[0].rstrip(",.-")


def alternatives(word):
    """Returns the paths that a word with braces stands for."""
    pieces = [piece[1:-1].split(",") if piece[:1] == "{" else [piece] for piece in re.split(r"(\{[^}]*\})", word)]
    return ["".join(choice) for choice in itertools.product(*pieces)]


class Repository:
    def __init__(self):
        self.paths = set(listing())
        self.tops = {path[:-1] for path in self.paths if path.endswith("/") and path.count("/") == 1}
        self.ends = set()  # of every path, with any number of folders in front left out
        for path in self.paths:
            pieces = path.split("/")
            self.ends.update("/".join(pieces[first:]) for first in range(len(pieces)))

    def lacks(self, word):
        """Tells whether the word is a path of this repository that does not exist."""
        rooted = "/" in word and word.split("/")[0] in self.tops
        if word in ELSEWHERE or word in SOURCES or not (rooted or word.endswith(SOURCES)):
            return False
        known = self.paths if rooted else self.ends
        for path in alternatives(word):
            pattern = re.sub(r"(?<![A-Za-z])[A-Z]+(?![A-Za-z])|<\w+>", "*", path)
            if not {path, path + "/"} & known and not ("*" in pattern and fnmatch.filter(known, pattern)):
                return True
        return False


def main():
    repository = Repository()
    wrong = 0
    for name in sorted(repository.paths):
        for number, row in texts(name):
            for word in words(row):
                if repository.lacks(word):
                    print(f"{name}:{number}: no file {word}")
                    wrong += 1
    return wrong > 0


if __name__ == "__main__":
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    sys.exit(main())
