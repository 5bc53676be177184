"""The wheel contains all files of the pages."""

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support.browser import HTMX, need

ROOT = Path(__file__).parents[3]
HERE = ROOT / "src" / "holdfast" / "http" / "pages"


def names_in_wheel(project, folder):
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def expected(package, folder, *parts):
    return {
        f"{package}/{path.relative_to(folder).as_posix()}"
        for part in parts
        for path in (folder / part).iterdir()
        if not path.name.startswith(".")
    }


def test_templates_styles_and_npm_assets_are_in_it(tmp_path):
    need(HTMX)
    names = names_in_wheel(ROOT, tmp_path)

    wanted = expected("holdfast/http/pages", HERE, "templates", "static", "vendor")
    assert "holdfast/http/pages/vendor/htmx.min.js" in wanted
    assert wanted <= names
    assert not [name for name in names if "node_modules" in name]


def test_the_apps_own_part_is_in_its_wheel(tmp_path):
    folder = ROOT / "apps/conversion/src/holdfast_conversion/pages"
    names = names_in_wheel(ROOT / "apps" / "conversion", tmp_path)

    assert expected("holdfast_conversion/pages", folder, "templates", "static") <= names
