"""The programs of the how-tos, whose first line names their file, are run as they stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.waiting import SOON

HOW_TOS = Path(__file__).resolve().parents[2] / "docs" / "how-to"

BANK = "def charge_card(order):\n    return f'order {order} is paid'\n"


def write_programs(page, folder):
    """Write the programs of a page into `folder`; return their sources by name."""
    text = (HOW_TOS / page).read_text("utf-8")
    found = dict(re.findall(r"```python\n# (\S+\.py)\n(.*?)```", text, re.DOTALL))
    for name, source in found.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source, "utf-8")
    return found


def environment(**settings):
    own = {"PYTHONPATH": ".", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return {**os.environ, **own, **settings}


def run(folder, *command, **settings):
    """Run a command in `folder` to its end and return what it printed."""
    done = subprocess.run(
        command, cwd=folder, env=environment(**settings), capture_output=True, text=True,
        check=False, timeout=SOON,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_beside(worker, folder, program, **settings):
    """Run `program` while the command `worker` runs; return what the program printed."""
    with (folder / "worker.log").open("w") as log:
        process = subprocess.Popen(
            worker, cwd=folder, env=environment(**settings), stdout=log, stderr=log
        )
        try:
            return run(folder, sys.executable, program, **settings)
        finally:
            process.terminate()
            process.wait(SOON)


# -- frameworks ------------------------------------------------------------------------------------

TRY_FASTAPI = """
import asyncio
from fastapi.testclient import TestClient
from shop import Base, Order, app, database, engine
from sqlalchemy import select

async def create_tables():
    async with database.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    await database.dispose()

async def run_jobs(job):
    async with engine, database.connect() as connection:
        await engine.work(until_idle=True)
        orders = (await connection.execute(select(Order.item))).all()
        jobs = (await engine.list()).jobs
        print(await engine.result(job), orders, len(jobs))
    await database.dispose()

asyncio.run(create_tables())
with TestClient(app) as client:
    job = client.post("/orders", params={"item": "tea"}).json()["job"]
    assert client.get(f"/jobs/{job}").json() == {"status": "queued"}
    assert client.get("/jobs/unknown").status_code == 404
    assert client.post("/orders", params={"item": "coffee"}).status_code == 409
asyncio.run(run_jobs(job))
"""


def test_fastapi_commits_the_order_and_its_job_in_one_session(tmp_path, postgres_url):
    write_programs("use-with-fastapi.md", tmp_path)
    (tmp_path / "try_it.py").write_text(TRY_FASTAPI, "utf-8")
    seen = run(tmp_path, sys.executable, "try_it.py", HOLDFAST_DATABASE_URL=postgres_url)
    assert seen.strip() == "receipt for order 1 [('tea',)] 1"


DJANGO_SETTINGS = """
import os
from urllib.parse import urlsplit

HOLDFAST_DATABASE_URL = os.environ["HOLDFAST_DATABASE_URL"]
parts = urlsplit(HOLDFAST_DATABASE_URL)
DATABASES = {"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": parts.path[1:], "USER": parts.username,
    "PASSWORD": parts.password, "HOST": parts.hostname, "PORT": parts.port,
}}
INSTALLED_APPS = ["shop"]
ROOT_URLCONF = "urls"
ALLOWED_HOSTS = ["testserver"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
"""
DJANGO_MODELS = """
from django.db import models

class Order(models.Model):
    item = models.TextField()
"""
DJANGO_URLS = """
from django.urls import path
from shop.views import place_order

urlpatterns = [path("orders", place_order)]
"""
TRY_DJANGO = """
import django
django.setup()
from django.db import connection
from django.test import Client
from holdfast.store.joining import NoTransaction
from shop.jobs import engine, send_receipt
from shop.models import Order

with connection.schema_editor() as editor:
    editor.create_model(Order)
client = Client(raise_request_exception=False)
job = client.post("/orders", {"item": "tea"}).json()["job"]
assert client.post("/orders", {"item": "coffee"}).status_code == 500
try:
    engine().enqueue(send_receipt, 1, connection=connection.connection)
except NoTransaction:
    print("refused outside atomic()")
print(engine().result(job, timeout=60), Order.objects.count(), len(engine().list().jobs))
"""


def test_django_commits_the_order_and_its_job_in_one_atomic_block(tmp_path, postgres_url):
    write_programs("use-with-django.md", tmp_path)
    for name, source in {
        "settings.py": DJANGO_SETTINGS,
        "shop/models.py": DJANGO_MODELS,
        "urls.py": DJANGO_URLS,
        "try_it.py": TRY_DJANGO,
    }.items():
        (tmp_path / name).write_text(source, "utf-8")
    settings = {"DJANGO_SETTINGS_MODULE": "settings", "HOLDFAST_DATABASE_URL": postgres_url}
    seen = run_beside(["holdfast", "worker", "shop.worker:app"], tmp_path, "try_it.py", **settings)
    assert seen.splitlines() == ["refused outside atomic()", "receipt for tea 1 1"]


# -- the same program with each library ------------------------------------------------------------

TRY_CELERY = """
from celery.contrib.testing.worker import start_worker
import charge_celery

charge_celery.app.conf.update(broker_url="memory://", result_backend="cache+memory://")
with start_worker(charge_celery.app, pool="solo", perform_ping_check=False):
    print(charge_celery.charge.delay(7).get(timeout=60))
"""


@pytest.fixture
def programs(tmp_path):
    found = write_programs("move-from-celery.md", tmp_path)
    (tmp_path / "bank.py").write_text(BANK, "utf-8")
    return found


def test_the_program_with_holdfast_runs(programs, tmp_path):
    seen = run_beside(
        ["holdfast", "worker", "charge_holdfast:app"], tmp_path, "charge_holdfast.py",
        HOLDFAST_DATABASE_URL=f"sqlite:///{tmp_path}/work.db",
    )  # fmt: skip
    assert seen.strip() == "order 7 is paid"


def test_the_program_with_celery_runs(programs, tmp_path):
    (tmp_path / "try_it.py").write_text(TRY_CELERY, "utf-8")
    assert run(tmp_path, sys.executable, "try_it.py").strip() == "order 7 is paid"


def test_the_program_with_procrastinate_runs(programs, tmp_path, postgres_url):
    settings = {"HOLDFAST_DATABASE_URL": postgres_url}
    procrastinate = ["procrastinate", "--app=charge_procrastinate.app"]
    run(tmp_path, *procrastinate, "schema", "--apply", **settings)
    create = "import psycopg, os; c = psycopg.connect(os.environ['HOLDFAST_DATABASE_URL']); "
    create += "c.execute('CREATE TABLE results (id int, answer text)'); c.commit(); c.close()"
    run(tmp_path, sys.executable, "-c", create, **settings)
    worker = [*procrastinate, "worker"]
    seen = run_beside(worker, tmp_path, "charge_procrastinate.py", **settings)
    assert seen.strip() == "order 7 is paid"


def lines_of_code(source):
    lines = (line.strip() for line in source.splitlines())
    return sum(bool(line) and not line.startswith("#") for line in lines)


@pytest.mark.parametrize("peer", ["charge_celery.py", "charge_procrastinate.py"])
def test_the_program_with_holdfast_is_not_longer(programs, peer):
    assert lines_of_code(programs["charge_holdfast.py"]) <= lines_of_code(programs[peer])


def test_all_are_formatted_alike(programs, tmp_path):
    """Otherwise the number of lines says nothing."""
    options = ["--isolated", "--line-length=100", "--check"]
    run(tmp_path, sys.executable, "-m", "ruff", "format", *options, *sorted(programs))
