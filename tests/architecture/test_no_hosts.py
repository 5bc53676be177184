"""No lock file records where a package was downloaded from."""

import json
import re

import pytest

# Split, so that this file does not contain the text that it searches for.
HOSTS = ["pypi" + ".org", "pythonhosted" + ".org", "npmjs" + ".org", "yarnpkg" + ".com"]
HOST = re.compile("|".join(map(re.escape, HOSTS)))
INDEX_LINE = re.compile(
    r"^\s*--((extra-)?index-url|index|default-index|find-links|trusted-host)[\s=]"
    r"|^\s*((extra-)?index-url|find-links)\s*=|^\s*registry\s*=\s*[\"']?\w+://",
    re.MULTILINE,
)
RECORDING_LOCKS = {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "yarn.lock"}
NPM_LOCKS = {"package-lock.json", "npm-shrinkwrap.json"}


def test_no_file_names_a_registry_or_an_index(root, repository_files):
    found = [
        f"{path.relative_to(root)}: {trace}"
        for path in repository_files
        for trace in traces(path.read_text("utf-8", errors="replace"))
    ]
    assert found == []


def test_no_lock_file_with_download_addresses_is_in_the_tree(root, repository_files):
    assert [path for path in repository_files if path.name in RECORDING_LOCKS] == []
    assert not (root / "uv.lock").exists()


def test_npm_locks_hold_no_resolved_addresses(repository_files):
    locks = [path for path in repository_files if path.name in NPM_LOCKS]
    assert [path for path in locks if resolved(json.loads(path.read_text("utf-8")))] == []


@pytest.mark.parametrize("lock", ["run", "dev", "bench"])
def test_requirement_locks_hold_names_versions_and_hashes_alone(root, lock):
    text = (root / "requirements" / f"{lock}.txt").read_text("utf-8")
    pins = re.findall(r"^[a-z0-9._-]+==[\w.]+(?: ; [^\\\n]+)? \\$", text, re.MULTILINE)
    hashes = re.findall(r"^    --hash=sha256:[0-9a-f]{64}(?: \\)?$", text, re.MULTILINE)
    comments = re.findall(r"^ *#.*$", text, re.MULTILINE)
    assert len(pins) > 20
    assert len(pins) + len(hashes) + len(comments) == len(text.splitlines())
    assert re.search(r"://|file:|(?<![\w.])/\w", text) is None


@pytest.mark.parametrize("lock", ["run", "dev", "bench"])
def test_every_requirement_asked_for_is_pinned(root, lock):
    folder = root / "requirements"
    asked = re.findall(r"^[a-z][a-z0-9-]+", (folder / f"{lock}.in").read_text(), re.MULTILINE)
    pinned = re.findall(r"^([a-z0-9-]+)==", (folder / f"{lock}.txt").read_text(), re.MULTILINE)
    assert len(asked) > 3
    assert sorted(set(asked) - set(pinned)) == []


@pytest.mark.parametrize(
    "text",
    [
        f"https://files.{HOSTS[1]}/packages/x.whl",
        f"registry.{HOSTS[2]}",
        "--index-url there",
        "--extra-index-url=there",
        "  --find-links /wheels",
        "registry=https://there",
        "index-url = there",
    ],
)
def test_the_check_sees(text):
    assert traces(f"first line\n{text}\n") != []


@pytest.mark.parametrize(
    "text",
    [
        "see https://keepachangelog.com",
        "uv pip compile --no-emit-index-url",
        "registry = Registry()",
    ],
)
def test_the_check_lets_pass(text):
    assert traces(text) == []


def test_a_resolved_address_is_seen_at_any_depth():
    assert resolved({"packages": {"node_modules/a": {"resolved": "there"}}})
    assert not resolved({"packages": {"node_modules/a": {"integrity": "sha512-x"}}})


def traces(text: str) -> list[str]:
    return [match.group().strip() for match in (*HOST.finditer(text), *INDEX_LINE.finditer(text))]


def resolved(value: object) -> bool:
    if isinstance(value, dict):
        return "resolved" in value or any(map(resolved, value.values()))
    return isinstance(value, list) and any(map(resolved, value))
