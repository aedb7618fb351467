"""The files that settings of TBMQ are in: KEY=value lines, the service's own yml, a compose file, a ConfigMap."""

import re
from collections.abc import Iterator
from typing import Final

import yaml

from gateway.imports.table import Given, ImportFileError, plain
from gateway.settings.kinds import quoted

_DEPTH: Final = 30
_MOST: Final = 20_000
_LINE: Final = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(.*)")
_NAME: Final = re.compile(r"[A-Z][A-Z0-9_]+")
_SPRING: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_.-]*)(?::(.*))?\}", re.DOTALL)
_SHELL: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::?-(.*))?\}|\$[A-Za-z_][A-Za-z0-9_]*", re.DOTALL)


def read(text: str) -> list[Given]:
    """The settings in ``text``, by environment variable where they have one. Raises ImportFileError."""
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            return list(_lines(text) if _LINE.fullmatch(line.strip()) else _documents(text))
    return []


def _lines(text: str) -> Iterator[Given]:
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ImportFileError(f"line {number}: {quoted(line[:40])}: expected KEY=value")
        yield Given(match[1], _elsewhere(_unquoted(match[2])), number)


def _unquoted(value: str) -> str:
    if value[:1] in ('"', "'"):
        end = value.find(value[0], 1)
        if end > 0:
            return value[1:end]
    return re.sub(r"(?:^|\s+)#.*", "", value)


def _elsewhere(value: str) -> str | None:
    """The value of a variable; of a reference to another one its default, or None."""
    match = _SHELL.fullmatch(value)
    return match[1] if match else value


def _documents(text: str) -> Iterator[Given]:
    try:
        documents = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise ImportFileError(f"line {line}: expected YAML or KEY=value lines: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ImportFileError(f"expected YAML or KEY=value lines: {str(error).partition(chr(10))[0]}") from None
    except RecursionError:
        raise ImportFileError(f"expected YAML or KEY=value lines of at most {_DEPTH} levels") from None
    count = 0
    for root in documents:
        if isinstance(root, yaml.ScalarNode):
            if not root.value:
                continue
            raise ImportFileError(f"line 1: {quoted(root.value[:40])}: expected YAML or KEY=value lines")
        deploys = isinstance(root, yaml.MappingNode) and {"services", "kind"} & {k.value for k, _ in root.value}
        for given in _walk(root, "", 0):
            count += 1
            if count > _MOST:
                raise ImportFileError(f"line {given.line}: expected at most {_MOST} settings")
            # of a deployment only the environment: images, ports and volumes are not the broker's
            if not deploys or _NAME.fullmatch(given.name):
                yield given


def _walk(node: yaml.Node, path: str, depth: int) -> Iterator[Given]:
    if depth > _DEPTH:
        raise ImportFileError(f"line {node.start_mark.line + 1}: {plain(path)}: expected at most {_DEPTH} levels")
    if isinstance(node, yaml.MappingNode):
        pairs: list[tuple[yaml.Node, yaml.Node]] = sorted(node.value, key=lambda pair: pair[0].value != "<<")
        for key, value in pairs:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
            if name == "<<":
                merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
                for part in reversed(merged):
                    yield from _walk(part, path, depth + 1)
            else:
                yield from _walk(value, f"{path}.{name}" if path else name, depth + 1)
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield from _item(item, f"{path}.{number}", depth)
    elif isinstance(node, yaml.ScalarNode):
        yield _scalar(node, path)


def _item(item: yaml.Node, path: str, depth: int) -> Iterator[Given]:
    """An item of a list: KEY=value, or a table with name and value, or something else."""
    line = item.start_mark.line + 1
    if isinstance(item, yaml.ScalarNode) and (match := _LINE.fullmatch(item.value.strip())):
        yield Given(match[1], _elsewhere(match[2]), line)
        return
    if isinstance(item, yaml.MappingNode):
        table = {key.value: value for key, value in item.value if isinstance(key, yaml.ScalarNode)}
        name = table.get("name")
        if isinstance(name, yaml.ScalarNode) and _NAME.fullmatch(name.value) and table.keys() - {"name"}:
            value = table.get("value")
            yield Given(name.value, _elsewhere(value.value) if isinstance(value, yaml.ScalarNode) else None, line)
            return
    yield from _walk(item, path, depth + 1)


def _scalar(node: yaml.ScalarNode, path: str) -> Given:
    """``KEY: value`` under a variable's own name, or a key of the service's yml with or without ${VARIABLE:default}."""
    text, line = str(node.value), node.start_mark.line + 1
    last = path.rpartition(".")[2]
    if _NAME.fullmatch(last):
        return Given(last, _elsewhere(text), line)
    name = path
    value: str | None = text
    while value is not None and (match := _SPRING.fullmatch(value)):
        name = match[1] if name == path else name
        value = match[2]
    return Given(name, value, line)
