import json
from pathlib import Path

from gateway.image.plan import read_plan
from gateway.image.sbom import Part, debian, document, python

IMAGES = Path(__file__).parents[4] / "images"
STATUS = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2:2.36-9+deb12u10
Description: a library
 with: a colon

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1
"""


def test_debian_packages() -> None:
    assert list(debian(STATUS)) == [
        Part("libc6", "2:2.36-9+deb12u10", "pkg:deb/debian/libc6@2%3A2.36-9%2Bdeb12u10?arch=amd64&distro=debian-12")
    ]


def test_python_packages(tmp_path: Path) -> None:
    folder = tmp_path / "Rich_Text-15.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: Rich_Text\nVersion: 15.0\nLicense-Expression: MIT\n\nText: more\n")
    assert list(python([tmp_path])) == [Part("Rich_Text", "15.0", "pkg:pypi/rich-text@15.0", "MIT")]


def test_the_document_is_cyclonedx_and_always_the_same() -> None:
    plan = read_plan(IMAGES, "rpi")
    parts = [Part("b", "2", "pkg:pypi/b@2", "MIT"), Part("a", "1", "pkg:pypi/a@1")]
    text = document(plan, "1.0.0", parts)
    assert text == document(plan, "1.0.0", reversed(parts))
    found = json.loads(text)
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.5")
    assert found["metadata"]["component"]["version"] == "1.0.0"
    assert [row["name"] for row in found["components"]] == ["a", "b"]
    assert found["components"][1]["licenses"] == [{"expression": "MIT"}]
    assert found["serialNumber"] != json.loads(document(plan, "1.0.0", parts[:1]))["serialNumber"]
