"""`python .ci/names.py`: names and words of the product follow docs/glossary.md.

Fails on a word of the lists in the glossary, in a name, a comment or a docstring, and on a class
name that two modules define.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sources import ROOT, product_files

GLOSSARY: Final = ROOT / "docs" / "glossary.md"
REPEATED: Final = {"Meta", "Command", "Migration", "Media"}
"""Class names that Django gives."""


def main() -> int:
    names, prose = _listed("In names"), _listed("In comments and docstrings")
    problems = [
        f"{path.relative_to(ROOT)}:{line}: {where} {word!r}"
        for path in product_files()
        for line, where, word in _words(path, names, prose)
    ]
    problems += _classes_defined_twice()
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


def _listed(heading: str) -> set[str]:
    """The words in the code block below a heading of the glossary."""
    text = GLOSSARY.read_text()
    found = re.search(rf"^### {heading}$.*?```\n(.*?)```", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit(f"{GLOSSARY} has no list {heading!r}")
    return set(found[1].split())


def _words(path: Path, names: set[str], prose: set[str]) -> Iterator[tuple[int, str, str]]:
    text = path.read_text()
    nodes = list(ast.walk(ast.parse(text)))
    for word in path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "_").split("_"):
        if word in names:
            yield 1, "module name with", word
    for node in nodes:
        if name := _defined(node):
            for word in _parts(name):
                if word in names:
                    yield node.lineno, f"name {name} with", word  # type: ignore[attr-defined]
    for line, comment in _comments(text, nodes):
        for word in re.findall(r"[a-z]+", comment.lower()):
            if word in prose:
                yield line, "comment with", word


def _defined(node: ast.AST) -> str | None:
    """The name that a statement gives to a class, function, argument, variable or constant."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    return None


def _parts(name: str) -> list[str]:
    """`order_of_patient`, `OrderOfPatient`: order, of, patient."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_")


def _comments(text: str, nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Comments, and strings that stand alone as statements, which are docstrings."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], re.sub(r"`[^`]*`", "", token.string)
    for node in nodes:
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        if isinstance(docstring := node.value.value, str):
            for number, line in enumerate(re.sub(r"`[^`]*`", "", docstring).splitlines()):
                yield node.lineno + number, line


def _classes_defined_twice() -> list[str]:
    places: dict[str, list[str]] = defaultdict(list)
    for path in product_files():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and node.name not in REPEATED:
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return [
        f"class {name} is defined {len(found)} times: {', '.join(found)}"
        for name, found in sorted(places.items())
        if len(found) > 1
    ]


if __name__ == "__main__":
    sys.exit(main())
