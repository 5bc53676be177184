"""Migrating and working from the command line."""

import asyncio
import gc
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest
from tests.apps.conversion.gateway_process import environment

from holdfast import Engine, JobStatus
from holdfast.bootstrap import load_reference
from holdfast.cli import app_discovery, main
from holdfast.cli.app_discovery import GROUP

MODULE = """
    from pathlib import Path

    from holdfast import App, JobContext

    app = App("letters")

    @app.job()
    async def write(ctx: JobContext, text: str) -> str:
        return text.upper()

    @app.job(queue="letters")
    async def post(ctx: JobContext) -> None: ...

    @app.job()
    async def collections(ctx: JobContext) -> int:
        import gc

        return gc.get_threshold()[0]

    def create(environment):
        return app if environment["LETTERS"] == "loud" else None

    @app.job()
    async def wait(ctx: JobContext, marker: str) -> None:
        import asyncio

        Path(marker).touch()
        await asyncio.sleep(60)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "letters_jobs.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    for name in ("letters_jobs", *BROKEN):
        sys.modules.pop(name, None)


def enqueue(job, args):
    async def run():
        async with Engine("sqlite:///work.db", apps=[load_reference("letters_jobs:app")]) as engine:
            return (await engine.enqueue(job, args)).id

    return asyncio.run(run())


def look(job_id):
    async def run():
        async with Engine("sqlite:///work.db", apps=[load_reference("letters_jobs:app")]) as engine:
            return await engine.get(job_id)

    return asyncio.run(run())


def test_a_worker_runs_what_waits_and_stops_when_idle(folder):
    job_id = enqueue("letters.write", "hello")

    code = main(["worker", "letters_jobs:app", "--database", "sqlite:///work.db", "--until-idle"])

    assert code == 0
    assert look(job_id).status is JobStatus.COMPLETE
    assert look(job_id).result == '"HELLO"'


def test_a_worker_has_python_look_for_circles_of_objects_more_rarely(folder):
    job_id = enqueue("letters.collections", None)

    main(["worker", "letters_jobs:app", "--database", "sqlite:///work.db", "--until-idle"])

    assert int(look(job_id).result) > gc.get_threshold()[0]


def test_an_installed_app_is_named_as_its_package_names_it(folder, monkeypatch):
    entry = EntryPoint("letters", "letters_jobs:create", GROUP)
    monkeypatch.setattr(
        app_discovery, "entry_points", lambda group: [entry] if group == GROUP else []
    )
    monkeypatch.setenv("LETTERS", "loud")
    job_id = enqueue("letters.write", "hello")

    assert main(["worker", "letters", "--database", "sqlite:///work.db", "--until-idle"]) == 0
    assert look(job_id).result == '"HELLO"'

    again = enqueue("letters.write", "all of them")
    assert main(["worker", "--database", "sqlite:///work.db", "--until-idle"]) == 0
    assert look(again).result == '"ALL OF THEM"'


def test_a_worker_takes_its_settings_from_where_the_server_does(folder, monkeypatch):
    seen = []

    def note(self, options):
        seen.append(options)
        return made(self, replace(options, maintenance=None))

    made = Engine.worker
    monkeypatch.setattr(Engine, "worker", note)
    monkeypatch.delenv("HOLDFAST_DATABASE_URL", raising=False)
    for name, text in {
        "HOLDFAST_DATA_DIR": "data", "WORKER_CONCURRENCY": "3", "LEASE_MS": "8000",
        "WORKER_SHUTDOWN_MS": "2000",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, text)

    assert main(["worker", "letters_jobs:app", "--until-idle"]) == 0
    command = ["worker", "letters_jobs:app", "--until-idle", "--concurrency", "7"]
    assert main([*command, "--queue", "letters"]) == 0
    first, second = seen
    assert (first.queues, second.queues) == ((), ("letters",))
    assert (first.concurrency, second.concurrency) == (3, 7)
    assert (first.lease_seconds, first.extend_every) == (8.0, 2.0)
    assert first.shutdown_seconds == 2.0
    assert (folder / "data" / "holdfast.db").exists()


def test_a_worker_of_plain_jobs_needs_no_http(folder):
    program = """
        import sys
        from holdfast.cli import main

        class Nothing:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in {"fastapi", "starlette", "uvicorn"}:
                    raise ModuleNotFoundError(name=name)

        sys.meta_path.insert(0, Nothing())
        sys.exit(main(["worker", "letters_jobs:app", "--database", "sqlite:///work.db",
                       "--until-idle"]))
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    assert subprocess.run(command, cwd=folder, check=False, timeout=60).returncode == 0


def test_the_conversion_service_works_by_its_name_with_the_gateway_beside_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "worker", "conversion", "--until-idle"],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")
    assert "gateway: listening on http://127.0.0.1:" in done.stderr


def test_ctrl_c_twice_releases_the_running_job_at_once(folder):
    marker = folder / "started"
    job_id = enqueue("letters.wait", str(marker))
    worker = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "worker", "letters_jobs:app",
         "--database", "sqlite:///work.db"],
        cwd=folder,
    )  # fmt: skip
    try:
        while not marker.exists():
            assert worker.poll() is None, "the worker ended before it started the job"
            os.sched_yield()
        worker.send_signal(signal.SIGINT)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=30) == 0
    finally:
        worker.kill()
        worker.wait()

    assert look(job_id).status is JobStatus.QUEUED
    assert look(job_id).attempt_count == 0


def test_migrate_prints_the_version_and_may_be_repeated(folder, capsys):
    assert main(["migrate", "--database", "sqlite:///work.db"]) == 0
    assert main(["migrate", "--database", "sqlite:///work.db"]) == 0

    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    assert "up to date at version" in first


def test_the_default_database_gets_its_folder(folder, monkeypatch):
    monkeypatch.delenv("HOLDFAST_DATABASE_URL", raising=False)

    assert main(["migrate"]) == 0
    assert (folder / ".holdfast" / "holdfast.db").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["migrate", "--database", "sqlite:///no/such/folder/work.db"], "folder"),
        (["worker", "letters_jobs:app", "--database", "sqlite:///work.db", "--concurrency", "0"],
         "concurrency must be at least 1"),
    ],
)  # fmt: skip
def test_an_error_that_the_user_can_fix_is_one_line(folder, capsys, arguments, said):
    assert main(arguments) == 1

    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


BROKEN = {
    "raising": "def read():\n    return {}['key']\n\nread()\n",
    "misspelt": "def (:\n",
    "lacking": "import no_such_library\n",
    "leaving": "raise SystemExit('no configuration')\n",
    "making": "def create(environment):\n    return 1 / 0\n",
    "twice": "from holdfast import App\nfirst, second = App('a'), App('a')\n",
}
"""Modules of a user that cannot be used, by name."""


@pytest.mark.parametrize(
    ("references", "said"),
    [
        (["letters_jobs"], "no app called 'letters_jobs' is installed; one's own is named"),
        (["no_such:app"], "app 'no_such:app': there is no module 'no_such'"),
        (["letters_jobs.no_such:app"], "app 'letters_jobs.no_such:app'"),
        ([":app"], "app is named as mypackage.module:name, got ':app'"),
        (["letters_jobs:nope"], "the module letters_jobs has no 'nope'; it has app"),
        (["letters_jobs:Path"], "app 'letters_jobs:Path' is not an App, got <class"),
        (["letters_jobs:write"], "app 'letters_jobs:write' is not an App, got <job letters.write>"),
        (["raising:app"], "cannot be imported: KeyError: 'key' ({folder}/raising.py, line 2)"),
        (["misspelt:app"], "cannot be imported: SyntaxError: "),
        (["lacking:app"], "No module named 'no_such_library' ({folder}/lacking.py, line 1)"),
        (["leaving:app"], "SystemExit: no configuration ({folder}/leaving.py, line 1)"),
        (["making:create"], "cannot be made: ZeroDivisionError: division by zero ({folder}/making"),
        (["twice:first", "twice:second"], "two apps are called 'a'; rename one of them"),
        (["letters_jobs:app", "--queue", "defualt"],
         "--queue defualt: no job of these apps uses this queue (known: default, "
         "holdfast-webhooks, letters); did"),
        (["letters_jobs:app", "--database", "sqllite:///work.db"], "did you mean sqlite://"),
        (["letters_jobs:app", "--database", "nonsense"], "the database's address has no scheme"),
        (["letters_jobs:app", "--database", "postgresql://a@b@c/d"], "more than one '@'"),
    ],
)  # fmt: skip
def test_a_wrong_reference_is_one_line_and_exit_code_2(folder, capsys, references, said):
    for name, text in BROKEN.items():
        (folder / f"{name}.py").write_text(text)
    arguments = ["worker", *references]
    if "--database" not in references:
        arguments += ["--database", "sqlite:///work.db"]

    assert main(arguments) == 2

    error = capsys.readouterr().err
    assert error.startswith("holdfast: ")
    assert said.format(folder=folder) in error
    assert error.count("\n") == 1


def test_migrate_warns_of_a_setting_that_does_not_exist(folder, monkeypatch, caplog):
    monkeypatch.setenv("HOLDFAST_DATABSE_URL", "sqlite:///elsewhere.db")

    assert main(["migrate", "--database", "sqlite:///work.db"]) == 0
    assert "did you mean HOLDFAST_DATABASE_URL?" in caplog.text


def test_a_worker_warns_of_a_setting_that_does_not_exist(folder, monkeypatch, caplog):
    monkeypatch.setenv("HOLDFAST_DATABSE_URL", "sqlite:///elsewhere.db")

    assert main(["worker", "letters_jobs:app", "--until-idle"]) == 0
    assert "did you mean HOLDFAST_DATABASE_URL?" in caplog.text


NOISY = """
    import sys
    from pathlib import Path

    from holdfast import App, JobContext, Permanent, RetryLater

    def heard(event):
        with Path("heard.txt").open("a") as file:
            print(type(event).__name__, getattr(event, "code", ""), file=file)

    app = App("noisy", listeners=[heard])

    @app.job()
    async def decline(ctx: JobContext, card: str) -> None:
        ctx.logger.info("charging")
        raise Permanent("CARD_DECLINED", "Ask your bank.")

    @app.job()
    async def later(ctx: JobContext) -> None:
        raise RetryLater(3600, "The bank is closed.")

    def redact(text):
        return text.replace("Ask your bank.", "***")
"""


@pytest.fixture
def noisy(tmp_path, monkeypatch):
    """A folder with an app whose jobs fail, and one job of each waiting."""
    (tmp_path / "noisy_jobs.py").write_text(textwrap.dedent(NOISY))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    async def run():
        async with Engine("sqlite:///work.db", apps=[load_reference("noisy_jobs:app")]) as engine:
            declined = await engine.enqueue("noisy.decline", "4242-4242", owner="ann")
            return declined.id, (await engine.enqueue("noisy.later")).id

    yield asyncio.run(run())
    sys.modules.pop("noisy_jobs", None)


def worker_log(**settings):
    """Run a worker in another process until it is idle, and return what it wrote."""
    command = [sys.executable, "-m", "holdfast", "worker", "noisy_jobs:app", "--until-idle"]
    address = ["--database", "sqlite:///work.db"]
    done = subprocess.run(
        [*command, *address], env={**environment(), **settings}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


def test_the_log_of_a_worker_shows_failures_and_its_apps_listeners_are_notified(noisy, tmp_path):
    declined, later = noisy
    code, text = worker_log()
    assert code == 0
    lines = text.splitlines()
    for pattern in (
        r"\S+Z INFO holdfast\.worker worker \S+ started: apps holdfast-webhooks, noisy; "
        r"queues default, holdfast-webhooks; "
        r"concurrency 10; SQLite file work\.db",
        rf"\S+Z INFO holdfast\.job\.noisy\.decline charging \[job {declined}\]",
        rf"\S+Z WARNING holdfast\.worker job {later} \(noisy\.later\) failed attempt 1 of 3: "
        r"GW_UNAVAILABLE: The bank is closed\.; next try at \S+Z",
        rf"\S+Z ERROR holdfast\.worker job {declined} \(noisy\.decline\) is a dead letter after "
        r"attempt 1 of 3 \(permanent\): CARD_DECLINED: Ask your bank\.",
        r"Traceback \(most recent call last\):",
        r"holdfast\.errors\.Permanent: Ask your bank\.",
        r"\S+Z INFO holdfast\.worker worker \S+ stopped",
    ):
        assert any(re.fullmatch(pattern, line) for line in lines), (pattern, text)
    assert "4242" not in text
    heard = (tmp_path / "heard.txt").read_text("utf-8")
    assert "AttemptFinished CARD_DECLINED" in heard


def test_the_log_is_one_json_object_per_line_for_machines(noisy):
    declined, _ = noisy
    settings = {
        "HOLDFAST_LOG_FORMAT": "json", "HOLDFAST_TRACEBACKS": "noisy_jobs:redact",
        "HOLDFAST_DATADIR": "x",
    }  # fmt: skip
    code, text = worker_log(**settings)
    assert code == 0
    lines = [json.loads(line) for line in text.splitlines()]
    (dead,) = [line for line in lines if line["level"] == "ERROR"]
    assert dead.pop("traceback").endswith("holdfast.errors.Permanent: ***")
    assert dead.pop("time").endswith("Z")
    assert dead.pop("message").startswith(f"job {declined} (noisy.decline) is a dead letter")
    assert dead == {
        "level": "ERROR", "logger": "holdfast.worker", "job_id": declined, "kind": "noisy.decline",
        "attempt": 1, "code": "CARD_DECLINED", "owner": "ann",
    }  # fmt: skip
    assert any("HOLDFAST_DATADIR is not a setting" in line["message"] for line in lines)
    assert "4242" not in text


@pytest.mark.parametrize("name, value", [("LOG_FORMAT", "xml"), ("TRACEBACKS", "noisy_jobs:no")])
def test_a_bad_choice_for_the_log_is_one_line(noisy, name, value):
    code, text = worker_log(**{f"HOLDFAST_{name}": value})
    assert (code, text.count("\n")) == (1, 1)
    assert text.startswith(f"holdfast: HOLDFAST_{name}")
