"""`holdfast doctor`, as it is called; `test_doctor_checks` has the checks one by one."""

import json
from pathlib import Path

from tests.cli.commands.shop import filled

from holdfast.cli import doctor_checks


def levels(out):
    """Return the level of each check in the JSON of `holdfast doctor`."""
    return {finding["check"]: finding["level"] for finding in json.loads(out)}


def test_a_healthy_store_is_exit_code_0(empty, run, tmp_path, monkeypatch):
    monkeypatch.setenv("HOLDFAST_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(doctor_checks, "_LEAST_FREE", 0)
    code, out, _ = run("doctor", "--json")
    assert code == 0
    assert levels(out) == {
        "schema": "ok", "database": "ok", "clock": "ok", "workers": "warning", "leases": "ok",
        "breakers": "ok", "outbox": "ok", "disk": "ok",
    }  # fmt: skip


def test_problems_are_exit_code_1_and_each_has_its_advice(url, run, rows):
    filled(url, 0, 0, letters=1)
    code, out, _ = run("doctor")
    assert code == 1
    lines = [line.split("\t") for line in out.splitlines()]
    advice = {check: advice for check, level, _, advice in lines if level == "problem"}
    assert advice["workers"] == "start one: holdfast worker APP"
    assert advice["breakers"].endswith("holdfast downstream release bank")


def test_a_file_that_does_not_exist_is_exit_code_2_and_not_created(url, run):
    code, out, err = run("doctor", "--json")
    assert (code, out) == (2, "")
    assert "there is no database" in err
    assert not Path(url.removeprefix("sqlite:///")).exists()


def test_a_database_without_its_schema_is_a_problem_and_left_as_it_is(url, run):
    file = Path(url.removeprefix("sqlite:///"))
    file.touch()
    code, out, _ = run("doctor", "--json")
    (finding,) = json.loads(out)
    assert (code, finding["check"], finding["advice"]) == (1, "schema", "run: holdfast migrate")
    assert file.stat().st_size == 0


def test_a_database_that_does_not_answer_is_a_finding(url, run):
    unreachable = "postgresql://127.0.0.1:1/nowhere"
    code, out, _ = run("doctor", "--json", "--database", unreachable)
    assert code == 1
    assert levels(out) == {"schema": "problem"}


def test_a_misspelt_setting_is_a_warning(empty, run, monkeypatch):
    monkeypatch.setenv("HOLDFAST_DATADIR", "x")
    code, out, _ = run("doctor", "--json")
    assert (code, levels(out)["settings"]) == (0, "warning")


def test_it_runs_on_postgresql(postgres_server, run):
    name = postgres_server.create_database()
    database = ["--database", postgres_server.url(name)]
    assert run("doctor", *database)[0] == 1
    assert run("migrate", *database)[0] == 0
    code, out, _ = run("doctor", "--json", *database)
    postgres_server.drop_database(name)
    assert code == 0
    assert {"clock", "leases", "workers"} <= levels(out).keys()
