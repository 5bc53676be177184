"""What the service imports when it starts."""

import subprocess
import sys

HEAVY = ("google.genai", "networkx", "numpy", "openai", "trafilatura", "yake")


def test_a_start_imports_no_library_that_only_some_requests_need():
    program = (
        "import sys, holdfast_ingestion.app\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert done.stdout == "[]\n"
