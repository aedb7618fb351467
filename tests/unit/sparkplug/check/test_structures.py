import pytest

from tests.sparkplug_judged import changed, failed, published, session, written
from tests.sparkplug_rig import nbirth

HEAD = 'name: "m" timestamp: 1700000000000'
DEFINITION = """metrics { name: "T" timestamp: 1700000000000 datatype: 19 template_value { is_definition: true
    metrics { name: "x" datatype: 3 int_value: 1 } metrics { name: "y" datatype: 3 int_value: 1 }
    parameters { name: "p" type: 3 int_value: 1 } } }"""
MEMBERS = 'metrics { name: "x" datatype: 3 int_value: 1 } metrics { name: "y" datatype: 3 int_value: 1 }'


def born(text: str) -> set[str]:
    """What fails in an NBIRTH with that metric beside a template's definition."""
    seen = session()
    seen[2] = published(changed(nbirth(), f"{DEFINITION} metrics {{ {HEAD} {text} }}"))
    return failed(seen)


def prefixed(start: str, *ends: str) -> set[str]:
    return {f"payloads-{start}-{end}" for end in ends}


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ('keys: "a" values { type: 3 int_value: 1 }', set()),
        ('keys: "Quality" values { type: 3 int_value: 192 }', set()),
        (
            'keys: "a" keys: "b" values { type: 3 int_value: 1 }',
            prefixed("propertyset", "keys-array-size", "values-array-size"),
        ),
        ('keys: "a" values { int_value: 1 }', prefixed("metric-propertyvalue", "type-req")),
        ('keys: "a" values { type: 16 int_value: 1 }', prefixed("metric-propertyvalue", "type-type", "type-value")),
        ('keys: "Quality" values { type: 3 int_value: 5 }', prefixed("propertyset-quality", "value-value")),
        ('keys: "Quality" values { type: 7 int_value: 0 }', prefixed("propertyset-quality", "value-type")),
        (
            'keys: "a" values { type: 20 propertyset_value { keys: "b" values { int_value: 1 } } }',
            prefixed("metric-propertyvalue", "type-req"),
        ),
        (
            'keys: "a" values { type: 21 propertysets_value { propertyset { keys: "b" } } }',
            prefixed("propertyset", "keys-array-size", "values-array-size"),
        ),
    ],
)
def test_properties(text: str, ids: set[str]) -> None:
    assert born(f"datatype: 3 int_value: 1 properties {{ {text} }}") == ids


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ('num_of_columns: 1 columns: "a" types: 3 rows { elements { int_value: 1 } }', set()),
        ('num_of_columns: 2 columns: "a" types: 3', prefixed("dataset", "column-size")),
        (
            'num_of_columns: 1 columns: "a"',
            prefixed("dataset", "column-num-headers", "types-num", "parameter-type-req"),
        ),
        ('num_of_columns: 1 columns: "a" types: 17', prefixed("dataset", "types-def", "types-type", "types-value")),
        (
            'num_of_columns: 1 columns: "a" types: 3 rows { elements { extension_value { } } }',
            prefixed("template", "dataset-value"),
        ),
    ],
)
def test_data_sets(text: str, ids: set[str]) -> None:
    assert born(f"datatype: 16 dataset_value {{ {text} }}") == ids


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (f'template_ref: "T" is_definition: false version: "1" {MEMBERS}', set()),
        (f'template_ref: "T" {MEMBERS}', prefixed("template", "is-definition")),
        (f"is_definition: false {MEMBERS}", prefixed("template", "instance-ref", "ref-instance", "definition-nbirth")),
        (f'template_ref: "U" is_definition: false {MEMBERS}', prefixed("template", "definition-nbirth")),
        (
            'template_ref: "T" is_definition: false metrics { name: "x" }',
            prefixed("template", "instance-members-birth"),
        ),
        (
            f'template_ref: "T" is_definition: false {MEMBERS} metrics {{ name: "z" }}',
            prefixed("template", "definition-members", "instance-members"),
        ),
        (
            f'template_ref: "T" is_definition: false {MEMBERS} parameters {{ name: "q" type: 3 int_value: 1 }}',
            prefixed("template", "definition-parameters"),
        ),
        ('template_ref: "T" is_definition: true', prefixed("template", "definition-ref", "ref-definition")),
        (
            'is_definition: true parameters { name: "" type: 3 int_value: 1 }',
            prefixed("template", "parameter-name-required"),
        ),
        ('is_definition: true parameters { name: "p" int_value: 1 }', prefixed("template", "parameter-type-req")),
        (
            'is_definition: true parameters { name: "p" type: 16 int_value: 1 }',
            prefixed("template", "parameter-value-type", "parameter-type-value"),
        ),
        (
            'is_definition: true parameters { name: "p" type: 3 extension_value { } }',
            prefixed("template", "parameter-value"),
        ),
    ],
)
def test_templates(text: str, ids: set[str]) -> None:
    assert born(f"datatype: 19 template_value {{ {text} }}") - {"topics-nbirth-templates"} == ids


def test_a_definition_is_for_the_nbirth_alone() -> None:
    text = f"timestamp: 1700000000000 seq: 1 {DEFINITION}"
    seen = session()
    seen[3] = published(written("DBIRTH", text, "d"))
    assert failed(seen) == prefixed("template", "definition-nbirth-only")


def test_an_instance_of_a_device_needs_its_definition_in_the_nbirth() -> None:
    metric = f'metrics {{ {HEAD} datatype: 19 template_value {{ template_ref: "T" is_definition: false {MEMBERS} }} }}'
    seen = session()
    seen[3] = published(written("DBIRTH", f"timestamp: 1700000000000 seq: 1 {metric}", "d"))
    assert failed(seen) == {"payloads-template-definition-nbirth", "topics-nbirth-templates"}
    assert failed(seen[3:]) == set()  # the NBIRTH was not seen


def test_structures_are_not_followed_without_end() -> None:
    inner = "is_definition: true"
    for _ in range(40):
        inner = f'is_definition: true metrics {{ name: "t" datatype: 19 template_value {{ {inner} }} }}'
    assert born(f"datatype: 19 template_value {{ {inner} }}") == set()
