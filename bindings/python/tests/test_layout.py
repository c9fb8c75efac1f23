# SPDX-License-Identifier: BSD-3-Clause
"""The mirror of unisono.h against what a C compiler makes of the header."""

import ctypes
import os
import shutil
import subprocess

import pytest
from conftest import CHECKOUT
from unisono import _c

HEADER = CHECKOUT / "include" / "unisono.h"


@pytest.fixture(scope="module")
def truth(tmp_path_factory):
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    if not HEADER.exists():
        pytest.skip("no include/unisono.h above the tests")
    folder = tmp_path_factory.mktemp("layout")
    lines = []
    for struct in _c.STRUCTS:
        name = struct._name_
        lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
        for field, *_ in struct._fields_:
            lines.append(
                f'printf("{name}.{field} %zu %zu\\n", offsetof(struct {name}, {field}), '
                f"sizeof(((struct {name} *)0)->{field}));"
            )
    for enum in _c.ENUMS:
        lines += [f'printf("UNI_{m.name} %d\\n", (int)UNI_{m.name});' for m in enum]
    lines.append('printf("max %d %d\\n", UNI_MAX_VARIABLES, UNI_LISI_WARNING);')
    body = "\n".join(lines)
    (folder / "layout.c").write_text(
        f"#include <stdio.h>\n#include <unisono.h>\nint main(void)\n{{\n{body}\nreturn 0;\n}}\n"
    )
    program = folder / "layout"
    subprocess.run(
        [compiler, "-std=c11", "-I", HEADER.parent, folder / "layout.c", "-o", program], check=True
    )
    out = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return {line.split()[0]: [int(x) for x in line.split()[1:]] for line in out.splitlines()}


@pytest.mark.parametrize("struct", _c.STRUCTS, ids=lambda s: s._name_)
def test_struct(truth, struct):
    assert [ctypes.sizeof(struct)] == truth[struct._name_]
    for field, *_ in struct._fields_:
        at = getattr(struct, field)
        assert [at.offset, at.size] == truth[f"{struct._name_}.{field}"], field


@pytest.mark.parametrize("enum", _c.ENUMS, ids=lambda e: e.__name__)
def test_enum(truth, enum):
    for member in enum:
        assert truth[f"UNI_{member.name}"] == [int(member)]
    assert truth["max"] == [_c.MAX_VARIABLES, _c.LISI_WARNING]


def test_no_field_of_a_struct_is_left_out():
    """A struct's size alone may hide a field in padding: names are compared with the header's."""
    if not HEADER.exists():
        pytest.skip("no include/unisono.h above the tests")
    text = HEADER.read_text()
    for struct in _c.STRUCTS:
        body = text.split(f"struct {struct._name_} {{")[1].split("\n};")[0]
        for field, *_ in struct._fields_:
            assert field in body
        declared = body.split("/*")[0] if "/*" not in body else _without_comments(body)
        count = sum(line.count(",") + 1 for line in declared.split(";") if line.strip())
        assert count == len(struct._fields_), struct._name_


def _without_comments(text: str) -> str:
    while "/*" in text:
        before, rest = text.split("/*", 1)
        text = before + rest.split("*/", 1)[1]
    return text
