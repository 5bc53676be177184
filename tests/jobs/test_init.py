"""The package's docstring leads to files that exist."""

import re
from pathlib import Path

from holdfast import jobs


def test_every_file_that_the_docstring_names_exists():
    named = re.findall(r"`([\w/]+\.py)`", jobs.__doc__)
    assert len(named) >= 5
    assert [name for name in named if not (Path(jobs.__file__).parent / name).exists()] == []
