"""Source files stay short enough to read at once."""

LONGEST_FILE = 400
ROOMS = ("src", "apps", "benchmarks", "scripts")


def test_no_source_file_is_longer_than_400_lines(root, repository_files):
    lengths = {
        path.relative_to(root).as_posix(): len(path.read_text("utf-8").splitlines())
        for path in repository_files
        if path.suffix == ".py" and path.relative_to(root).parts[0] in ROOMS
    }
    assert "src/holdfast/errors.py" in lengths
    assert {path: lines for path, lines in lengths.items() if lines > LONGEST_FILE} == {}
