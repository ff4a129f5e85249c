"""`python .ci/markup.py`: no HTML in Python strings of the product. It stands in templates.

Fails on a string with an HTML or SVG tag in a file that `ALLOWED` does not list, and on a listed
file without such a string. Docstrings are not read.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sources import ROOT, product_files

TAG: Final = re.compile(
    r"</?(?:a|abbr|article|b|bdi|br|button|caption|circle|code|dd|details|dialog|div|dl|dt|em"
    r"|fieldset|figure|footer|form|h[1-6]|head|header|hr|html|i|img|input|kbd|label|legend|li|link"
    r"|main|meta|nav|ol|optgroup|option|output|p|path|pre|progress|rect|script|section|select|small"
    r"|span|strong|style|sub|summary|sup|svg|table|tbody|td|template|text|textarea|th|thead|time"
    r"|title|tr|u|ul|use)(?=[\s/>{])"
)
ALLOWED: Final[dict[str, str]] = {
    "labs/admin.py": "links in Django's admin, which keeps its own engine and format_html",
}
"""Files with HTML in strings, each with what it is. This list only becomes shorter."""


def main() -> int:
    found = {path.relative_to(ROOT).as_posix(): list(_tags(path)) for path in product_files()}
    problems = [
        f"{name}:{line}: {tag} in a string: HTML stands in templates"
        for name, tags in found.items()
        if name not in ALLOWED
        for line, tag in tags
    ]
    problems += [
        f"{name}: no HTML is left in it: take it off the list in .ci/markup.py"
        for name in ALLOWED
        if not found.get(name)
    ]
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


def _tags(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of the first tag of each string that is not a docstring."""
    tree = ast.parse(path.read_text())
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = TAG.search(node.value)
            if match and id(node) not in statements:
                yield node.lineno, match[0]


if __name__ == "__main__":
    raise SystemExit(main())
