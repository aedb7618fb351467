"""Requirements on what is inside of a metric: properties, data sets, templates."""

from typing import Any, Final

from sparkplug.check.verdicts import Verdicts
from sparkplug.datatypes import BASIC, DataType
from sparkplug.topic import MessageType

_DEPTH_MAX: Final = 16
_PROPERTY_TYPES: Final = BASIC | {DataType.PropertySet, DataType.PropertySetList}
_QUALITIES: Final = (0, 192, 500)
_EXTENSION: Final = "extension_value"


def check_properties(verdicts: Verdicts, properties: Any, label: str, born: bool, depth: int = 0) -> None:
    """``born``: it stands in a birth, where types must be given."""
    even = len(properties.keys) == len(properties.values)
    verdicts.expect(
        even,
        f"{label}: {len(properties.keys)} keys, {len(properties.values)} values",
        "payloads-propertyset-keys-array-size",
        "payloads-propertyset-values-array-size",
    )
    for key, value in zip(properties.keys, properties.values, strict=False):
        where = f"{label}: property {key!r}"
        if born:
            typed = value.HasField("type")
            verdicts.expect(typed, f"{where} has no type", "payloads-metric-propertyvalue-type-req")
        if value.HasField("type"):
            verdicts.expect(
                value.type in _PROPERTY_TYPES,
                f"{where}: type {value.type}",
                "payloads-metric-propertyvalue-type-type",
                "payloads-metric-propertyvalue-type-value",
            )
        if key == "Quality":
            quality = "payloads-propertyset-quality-value"
            verdicts.expect(value.type == DataType.Int32, f"{where}: type {value.type}", f"{quality}-type")
            good = value.WhichOneof("value") == "int_value" and value.int_value in _QUALITIES
            verdicts.expect(good, f"{where}: {value.int_value}", f"{quality}-value")
        if value.WhichOneof("value") == "propertyset_value" and depth < _DEPTH_MAX:
            check_properties(verdicts, value.propertyset_value, where, born, depth + 1)
        elif value.WhichOneof("value") == "propertysets_value" and depth < _DEPTH_MAX:
            for each in value.propertysets_value.propertyset:
                check_properties(verdicts, each, where, born, depth + 1)


def check_dataset(verdicts: Verdicts, dataset: Any, label: str) -> None:
    columns, types = len(dataset.columns), len(dataset.types)
    counted = f"{label}: {dataset.num_of_columns} columns counted, {columns} named, {types} types"
    verdicts.expect(dataset.num_of_columns == columns, counted, "payloads-dataset-column-size")
    verdicts.expect(
        columns == types,
        counted,
        "payloads-dataset-column-num-headers",
        "payloads-dataset-types-num",
        "payloads-dataset-parameter-type-req",
    )
    verdicts.expect(
        all(type in BASIC for type in dataset.types),
        f"{label}: types {list(dataset.types)}",
        "payloads-dataset-types-def",
        "payloads-dataset-types-type",
        "payloads-dataset-types-value",
    )
    cells = [cell for row in dataset.rows for cell in row.elements]
    if cells:
        basic = all(cell.WhichOneof("value") != _EXTENSION for cell in cells)
        verdicts.expect(basic, f"{label}: a cell with an extension", "payloads-template-dataset-value")


def check_template(
    verdicts: Verdicts, template: Any, label: str, type: MessageType, definitions: dict[str, Any] | None, depth: int = 0
) -> None:
    """``definitions``: those of the NBIRTH, by name; None when that was not seen."""
    if depth > _DEPTH_MAX:
        return
    verdicts.expect(template.HasField("is_definition"), f"{label}: no is_definition", "payloads-template-is-definition")
    if template.HasField("version"):
        verdicts.expect(isinstance(template.version, str), f"{label}: version", "payloads-template-version")
    if template.is_definition:
        _check_definition(verdicts, template, label, type)
    else:
        _check_instance(verdicts, template, label, type, definitions)
    born = type in (MessageType.NBIRTH, MessageType.DBIRTH)
    for parameter in template.parameters:
        _check_parameter(verdicts, parameter, label, born)
    for metric in template.metrics:
        where = f"{label}, member {metric.name!r}"
        if metric.HasField("properties"):
            check_properties(verdicts, metric.properties, where, born, depth + 1)
        if metric.WhichOneof("value") == "dataset_value":
            check_dataset(verdicts, metric.dataset_value, where)
        elif metric.WhichOneof("value") == "template_value":
            check_template(verdicts, metric.template_value, where, type, definitions, depth + 1)


def _check_definition(verdicts: Verdicts, template: Any, label: str, type: MessageType) -> None:
    verdicts.met("payloads-template-definition-is-definition", "payloads-template-is-definition-definition")
    only = type is MessageType.NBIRTH
    verdicts.expect(only, f"{label}: a definition in {type}", "payloads-template-definition-nbirth-only")
    verdicts.expect(
        not template.HasField("template_ref"),
        f"{label}: a definition with template_ref",
        "payloads-template-definition-ref",
        "payloads-template-ref-definition",
    )
    if any(parameter.WhichOneof("value") for parameter in template.parameters):
        verdicts.met("payloads-template-definition-parameters-default")


def _check_instance(
    verdicts: Verdicts, template: Any, label: str, type: MessageType, definitions: dict[str, Any] | None
) -> None:
    definition = None if definitions is None else definitions.get(template.template_ref)
    # An instance that says that it is a definition cannot be told from a definition, unless it names one.
    verdicts.met("payloads-template-instance-is-definition", "payloads-template-is-definition-instance")
    verdicts.expect(
        bool(template.template_ref),
        f"{label}: an instance without template_ref",
        "payloads-template-instance-ref",
        "payloads-template-ref-instance",
    )
    if definitions is not None:
        verdicts.expect(
            definition is not None,
            f"{label}: no definition {template.template_ref!r} in the NBIRTH",
            "payloads-template-definition-nbirth",
            "topics-nbirth-templates",
        )
    if definition is None:
        return
    members = {metric.name for metric in template.metrics}
    defined = {metric.name for metric in definition.metrics}
    verdicts.expect(
        members <= defined,
        f"{label}: members {sorted(members - defined, key=str)} are not in the definition",
        "payloads-template-definition-members",
        "payloads-template-instance-members",
    )
    parameters = {parameter.name for parameter in template.parameters}
    known = {parameter.name for parameter in definition.parameters}
    verdicts.expect(
        parameters <= known,
        f"{label}: parameters {sorted(parameters - known, key=str)} are not in the definition",
        "payloads-template-definition-parameters",
    )
    if parameters:
        verdicts.met("payloads-template-instance-parameters")
    if type in (MessageType.NBIRTH, MessageType.DBIRTH):
        lacking = f"{label}: members {sorted(defined - members, key=str)} are missing"
        verdicts.expect(members >= defined, lacking, "payloads-template-instance-members-birth")
    elif members < defined:
        verdicts.met("payloads-template-instance-members-data")


def _check_parameter(verdicts: Verdicts, parameter: Any, label: str, born: bool) -> None:
    where = f"{label}, parameter {parameter.name!r}"
    named = "payloads-template-parameter-name"
    verdicts.expect(bool(parameter.name), f"{where} has no name", f"{named}-required")
    verdicts.expect(isinstance(parameter.name, str), f"{where} is no UTF-8", f"{named}-type")
    if born:
        typed = parameter.HasField("type")
        verdicts.expect(typed, f"{where} has no type", "payloads-template-parameter-type-req")
    if parameter.HasField("type"):
        verdicts.expect(
            parameter.type in BASIC,
            f"{where}: type {parameter.type}",
            "payloads-template-parameter-value-type",
            "payloads-template-parameter-type-value",
        )
    field = parameter.WhichOneof("value")
    if field is not None:
        verdicts.expect(field != _EXTENSION, f"{where} is an extension", "payloads-template-parameter-value")
