"""The units of `deploy/systemd` start commands that exist, and leave a worker the time it needs."""

import configparser
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.jobs.worker.options import WorkerOptions

UNITS = sorted((Path(__file__).resolve().parents[2] / "deploy" / "systemd").glob("*.service"))


def read(unit):
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read_string(unit.read_text("utf-8"))
    return parser


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_a_command_that_is_understood(unit, capsys):
    program, *words = read(unit)["Service"]["ExecStart"].split()

    with pytest.raises(SystemExit) as ended:
        raise SystemExit(main([*words, "--help"]))

    assert program == "/opt/holdfast/bin/holdfast"
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in words)


@pytest.mark.parametrize("unit", [unit for unit in UNITS if "migrate" not in unit.name])
def test_a_unit_waits_longer_than_a_worker_takes_to_stop(unit):
    assert float(read(unit)["Service"]["TimeoutStopSec"]) > WorkerOptions().shutdown_seconds
