"""The part of HOCON that settings of EMQX are written in.

Objects, dotted and quoted keys, ``=``, ``:`` or a bare brace, one-line and three-quote strings, lists (kept as text),
comments with # and //. What would need other files or the environment (``include``, ``${...}``) is refused.
"""

import re
from collections.abc import Iterator, Set
from typing import Final, final

from gateway.imports.table import Given, ImportFileError, plain
from gateway.settings.kinds import quoted

_DEPTH: Final = 30
_BLANK: Final = re.compile(r"(?:[\s,\ufeff]|(?:#|//)[^\n]*)*")
_SPACE: Final = re.compile(r"[ \t]*")
_STRING: Final = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_WORD: Final = re.compile(r'[^\s".=:{}\[\],#$+]+')
_UNQUOTED: Final = re.compile(r"(?:(?!//)[^\n,{}\[\]#\"$])+")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


@final
class _Leaf:
    def __init__(self, text: str, line: int) -> None:
        self.text, self.line = text, line


_Tree = dict[str, "_Leaf | _Tree"]


def read(text: str, maps: Set[str]) -> list[Given]:
    """The settings in ``text`` by dotted key; those of ``maps`` have a table as value. Raises ImportFileError."""
    reader = _Reader(text.replace("\r\n", "\n"))
    tree: _Tree = {}
    reader.blank()
    braced = reader.take("{")
    reader.members(tree, "}" if braced else "", 0)
    reader.blank()
    if not reader.ended():
        raise reader.error(f"{quoted(reader.rest())}: expected a key")
    return list(_flat(tree, "", maps))


def _flat(tree: _Tree, above: str, maps: Set[str]) -> Iterator[Given]:
    for name, node in tree.items():
        key = above + name
        if isinstance(node, _Leaf):
            yield Given(key, node.text, node.line)
        elif key in maps:
            inside = list(_flat(node, "", frozenset()))
            if inside:
                table = {item.name: item.text for item in inside if isinstance(item.text, str)}
                yield Given(key, table, inside[0].line)
        else:
            yield from _flat(node, key + ".", maps)


@final
class _Reader:
    """A place in the text that moves on."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def error(self, text: str) -> ImportFileError:
        return ImportFileError(f"line {self._line()}: {text}")

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1

    def ended(self) -> bool:
        return self._at >= len(self._text)

    def rest(self) -> str:
        """What follows on this line, cut."""
        return self._text[self._at :].partition("\n")[0][:40]

    def blank(self) -> None:
        self._match(_BLANK)

    def take(self, literal: str) -> bool:
        if literal and self._text.startswith(literal, self._at):
            self._at += len(literal)
            return True
        return False

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return match[0] if match else ""

    def members(self, tree: _Tree, closing: str, depth: int) -> None:
        """The members of an object up to its brace, or of the file up to its end."""
        if depth > _DEPTH:
            raise self.error(f"expected at most {_DEPTH} braces within each other")
        while True:
            self.blank()
            if self.take(closing):
                return
            if self.ended():
                if closing:
                    raise self.error(f'end of file: expected "{closing}"')
                return
            if not closing and self._text[self._at] == "}":
                return
            self._member(tree, depth)

    def _member(self, tree: _Tree, depth: int) -> None:
        if re.compile(r'include[ \t]+["a-z]').match(self._text, self._at):
            raise self.error("include: other files are not read: put their text in this one")
        path = self._path()
        self._match(_SPACE)
        key = plain(".".join(path))
        if self.take("+="):
            raise self.error(f"{key}: += is not read: expected =")
        assigned = self.take("=") or self.take(":")
        if not assigned and not self._text.startswith("{", self._at):
            raise self.error(f"{key}: {quoted(self.rest())}: expected =, : or {{")
        self._match(re.compile(r"\s*" if assigned else ""))
        for name in path[:-1]:
            below = tree.get(name)
            if not isinstance(below, dict):
                below = tree[name] = {}
            tree = below
        if self.take("{"):
            inner = tree.get(path[-1])
            if not isinstance(inner, dict):
                inner = tree[path[-1]] = {}
            self.members(inner, "}", depth + 1)
        else:
            line = self._line()
            tree[path[-1]] = _Leaf(self._value(key), line)

    def _path(self) -> list[str]:
        path: list[str] = []
        while True:
            word = self._string() if self._text.startswith('"', self._at) else self._match(_WORD)
            if not word:
                raise self.error(f"{quoted(self.rest())}: expected a key")
            path.append(word)
            if not self.take("."):
                return path

    def _string(self) -> str:
        if self.take('"""'):
            end = self._text.find('"""', self._at)
            if end < 0:
                raise self.error('end of file: expected """')
            start, self._at = self._at, end + 3
            return self._text[start:end]
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise self.error(f"{quoted(self.rest())}: expected a string that ends on its line")
        self._at = match.end()
        return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", _unescaped, match[1])

    def _value(self, key: str) -> str:
        """A string, a list as text, or the words up to the end of the member."""
        if self._text.startswith("[", self._at):
            return self._list(key)
        value = self._string() if self._text.startswith('"', self._at) else self._match(_UNQUOTED).strip()
        self._match(_SPACE)
        left = "" if self.ended() else self._text[self._at]
        if left == "$":
            raise self.error(f"{key} = {quoted(self.rest())}: substitutions are not read: put the value there")
        if left and left not in "\n,}#" and not self._text.startswith("//", self._at):
            raise self.error(f"{key} = {quoted(value + self.rest())}: expected one value")
        return value

    def _list(self, key: str) -> str:
        start, depth = self._at, 0
        while not self.ended():
            character = self._text[self._at]
            if character == '"':
                self._string()
                continue
            if character == "#":
                self._match(_BLANK)
                continue
            self._at += 1
            depth += (character in "[{") - (character in "]}")
            if not depth:
                return self._text[start : self._at]
        raise self.error(f'{key}: end of file: expected "]"')


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPES.get(code, code)
