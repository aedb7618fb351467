"""``python tests/drill``: only ``tests`` comes from this tree, so that the installed gateway is what is drilled."""

import importlib.util
import sys
from pathlib import Path

if __name__ == "__main__":
    here = Path(__file__).resolve().parent.parent / "__init__.py"
    spec = importlib.util.spec_from_file_location("tests", here, submodule_search_locations=[str(here.parent)])
    assert spec is not None
    sys.modules["tests"] = importlib.util.module_from_spec(spec)

    from tests.drill.run import main

    sys.exit(main())
