"""The generated module is what the compiler makes of the .proto, and its fields are those of the specification."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparkplug.sparkplug_b_pb2 import Payload

ROOT = Path(__file__).parents[3]


def test_it_is_up_to_date(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools", reason="the compiler comes with grpcio-tools")
    environment = {**os.environ, "PYTHON": sys.executable}
    subprocess.run([str(ROOT / "tools" / "proto"), str(tmp_path)], check=True, env=environment)
    for name in ("sparkplug_b_pb2.py", "sparkplug_b_pb2.pyi"):
        assert (tmp_path / "sparkplug" / name).read_text() == (ROOT / "sparkplug" / name).read_text()


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (Payload, "timestamp metrics seq uuid body"),
        (
            Payload.Metric,
            "name alias timestamp datatype is_historical is_transient is_null metadata properties int_value long_value"
            " float_value double_value boolean_value string_value bytes_value dataset_value template_value extension_value",
        ),
        (Payload.MetaData, "is_multi_part content_type size seq file_name file_type md5 description"),
        (Payload.PropertySet, "keys values"),
        (Payload.PropertySetList, "propertyset"),
        (
            Payload.PropertyValue,
            "type is_null int_value long_value float_value double_value boolean_value string_value propertyset_value"
            " propertysets_value extension_value",
        ),
        (Payload.DataSet, "num_of_columns columns types rows"),
        (Payload.DataSet.Row, "elements"),
        (
            Payload.DataSet.DataSetValue,
            "int_value long_value float_value double_value boolean_value string_value extension_value",
        ),
        (Payload.Template, "version metrics parameters template_ref is_definition"),
        (
            Payload.Template.Parameter,
            "name type int_value long_value float_value double_value boolean_value string_value extension_value",
        ),
    ],
)
def test_numbers_of_the_fields(message: type[Payload], fields: str) -> None:
    assert [(field.number, field.name) for field in message.DESCRIPTOR.fields] == list(enumerate(fields.split(), 1))
