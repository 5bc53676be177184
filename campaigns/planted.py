"""Mutation testing: known bugs are inserted one by one into a copy of the engine.

Each must be caught, by a fact of the conformance suite or by a finding of a short campaign. First
the unchanged engine must pass the suite.
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from campaigns.fleet import ROOT, SOURCE, environment
from campaigns.plan import CampaignOutcome, Plan, echo

_TIMEOUT = 300.0


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug to insert: in `file`, `old` is replaced by `new`.

    `old`, and each text that `also` replaces, must occur exactly once. If the suite does not catch
    the bug, `campaigns` run in order.
    """

    name: str
    store: str
    file: str
    old: str
    new: str
    campaigns: tuple[str, ...] = ("kill", "stop")
    also: tuple[tuple[str, str], ...] = ()


_SQLITE, _SQL = "store/sqlite", "store/sqlite/sql"
_POSTGRES = "store/postgres/functions"
_LOCATION = "SELECT jobs.ctid AS location\n                FROM holdfast.jobs\n                "
_SEQ = _LOCATION.replace("ctid", "seq")

BUGS = (
    Bug(
        "finish does not check the token",
        "sqlite",
        f"{_SQLITE}/finish.py",
        "row.token != item.lease.token or ",
        "",
    ),
    Bug(
        "progress does not check the token",
        "sqlite",
        f"{_SQL}/control.sql",
        "WHERE id = :id AND status = 'processing' AND token = :token;",
        "WHERE id = :id AND status = 'processing';",
    ),
    Bug(
        "a heartbeat does not check the token",
        "sqlite",
        f"{_SQL}/control.sql",
        "    AND jobs.token = given.value ->> 1\nRETURNING",
        "RETURNING",
    ),
    Bug(
        "an attempt is not counted at the claim",
        "sqlite",
        f"{_SQL}/claim.sql",
        "    attempt_count = attempt_count + 1,\n",
        "",
    ),
    Bug(
        "the token does not rise at the claim",
        "sqlite",
        f"{_SQL}/claim.sql",
        "    token = token + 1,\n",
        "",
    ),
    Bug(
        "rescue takes leases that have not expired",
        "sqlite",
        f"{_SQL}/maintenance.sql",
        " AND jobs.lease_expires_at <= :now\n",
        "\n",
    ),
    Bug(
        "trial calls are not limited",
        "sqlite",
        "jobs/downstreams/claim_permits.py",
        "    state = transitions.state_at(circuit, now)\n    policy = settings.breaker",
        "    state = CircuitState.CLOSED\n    policy = settings.breaker",
        ("brownout",),
    ),
    Bug(
        "write transactions begin without the write lock",
        "sqlite",
        f"{_SQLITE}/writer.py",
        '"BEGIN IMMEDIATE"',
        '"BEGIN"',
    ),
    Bug(
        "writes are acknowledged before the commit",
        "sqlite",
        f"{_SQLITE}/writer.py",
        '                db.execute("COMMIT")\n',
        "                for each in done:\n                    each.future.set_result("
        '(each.value, 0))\n                done = []\n                db.execute("ROLLBACK")\n',
    ),
    Bug(
        "a handler's transaction is committed though its completion is refused",
        "sqlite",
        f"{_SQLITE}/attempt_transaction.py",
        "return result, not (result.refused or result.overruled)",
        "return result, True",
    ),
    Bug(
        "a handler's rows are committed before its completion",
        "sqlite",
        f"{_SQLITE}/write_loan.py",
        "        value, commits = ending(connection)\n",
        "        self._may_commit = True\n"
        '        connection.execute("COMMIT; BEGIN IMMEDIATE")\n'
        "        value, commits = ending(connection)\n",
    ),
    Bug(
        "heartbeats extend nothing",
        "sqlite",
        "jobs/worker/heartbeat.py",
        "        if not runs:\n",
        "        if runs:\n",
        ("clock",),
    ),
    Bug(
        "a slot is written without comparing versions",
        "sqlite",
        "store/sqlite/sql/schedules.sql",
        "WHERE name = :name AND version = :version\n",
        "WHERE name = :name\n",
        ("periodic",),
    ),
    Bug(
        "finish does not check the token",
        "postgres",
        f"{_POSTGRES}/finish.sql",
        "                AND token = p_reports.tokens[1]\n",
        "",
        also=(
            (
                "                AND jobs.token = coalesce(given.token, p_reports.tokens[1])\n"
                "                AND jobs.worker_id",
                "                AND jobs.worker_id",
            ),
        ),
    ),
    Bug(
        "progress does not check the token",
        "postgres",
        f"{_POSTGRES}/control.sql",
        "        AND token = p_token\n        AND (worker_id <> p_worker)",
        "        AND (worker_id <> p_worker)",
    ),
    Bug(
        "an attempt is not counted at the claim",
        "postgres",
        f"{_POSTGRES}/take.sql",
        "attempt_count = attempt_count + 1,",
        "",
    ),
    Bug(
        "rescue takes leases that have not expired",
        "postgres",
        f"{_POSTGRES}/leases.sql",
        "jobs.lease_expires_at <= t OR jobs.worker_id = ANY (dead)",
        "jobs.worker_id IS NOT NULL",
    ),
    Bug(
        "two claims may take the same job",
        "postgres",
        f"{_POSTGRES}/take.sql",
        "jobs.ready_at, jobs.seq\n                LIMIT wanted.quota\n"
        "                FOR UPDATE SKIP LOCKED\n",
        "jobs.ready_at, jobs.seq\n                LIMIT wanted.quota\n",
        ("kill", "kill"),
        (
            (f"{_LOCATION}WHERE jobs.ready\n", f"{_SEQ}WHERE jobs.ready\n"),
            (f"{_LOCATION}WHERE wanted.priority", f"{_SEQ}WHERE wanted.priority"),
            ("WHERE ctid = ANY (ARRAY(", "WHERE seq = ANY (ARRAY("),
        ),
    ),
    Bug(
        "a held lane is claimed from",
        "postgres",
        f"{_POSTGRES}/lanes.sql",
        "CASE WHEN downstreams.held_until > t THEN downstreams.held_until END,",
        "NULL::double precision,",
    ),
    Bug(
        "a claim uses the worker's clock",
        "postgres",
        "store/postgres/store.py",
        "self._ticker.tick(worker_id, finished, claim, now)",
        "self._ticker.tick(worker_id, finished, claim, now or self._clock.wall())",
        ("clock",),
    ),
    Bug(
        "rescue uses the worker's clock",
        "postgres",
        "store/postgres/store.py",
        "maintenance.rescue(self._database, limit, now)",
        "maintenance.rescue(self._database, limit, now or self._clock.wall())",
        ("clock",),
    ),
    Bug(
        "a handler's transaction is committed though its completion is refused",
        "postgres",
        "store/postgres/attempt_transaction.py",
        "        if result.refused or result.overruled:\n            await lent.close()\n",
        "        if result.refused or result.overruled:\n            await lent.commit()\n",
    ),
    Bug(
        "a handler's rows are committed before its completion",
        "postgres",
        "store/postgres/attempt_transaction.py",
        "        versions = await parts.ticker.quiet_versions(finished.report)\n",
        '        await lent.connection.execute("COMMIT; BEGIN")\n'
        "        versions = await parts.ticker.quiet_versions(finished.report)\n",
    ),
    Bug(
        "jobs of a refused completion are created",
        "postgres",
        "store/postgres/tick.py",
        "if isinstance(item.outcome, Completed) and id(item.lease) not in elsewhere",
        "if isinstance(item.outcome, Completed)",
    ),
    Bug(
        "heartbeats extend nothing",
        "postgres",
        "jobs/worker/heartbeat.py",
        "        if not runs:\n",
        "        if runs:\n",
        ("clock",),
    ),
    Bug(
        "a slot is written without comparing versions",
        "postgres",
        "store/postgres/sql/schedules.sql",
        "WHERE name = :name AND version = :version\n",
        "WHERE name = :name\n",
        ("periodic",),
    ),
    Bug(
        "a message is marked as published before the broker has it",
        "sqlite",
        "messaging/rabbitmq.py",
        "            await self._send_on(self._broker, body, properties, routing_key)\n",
        "            sent = self._send_on(self._broker, body, properties, routing_key)\n"
        "            asyncio.get_running_loop().call_later(1.0, asyncio.ensure_future, sent)\n",
        ("grading",),
    ),
    Bug(
        "a Celery task is acknowledged before what became of it is committed",
        "sqlite",
        "messaging/celery/task.py",
        "    acks_late = True\n",
        "    acks_late = False\n",
        ("grading",),
    ),
    Bug(
        "the inbox is committed before the transaction of the task",
        "sqlite",
        "messaging/celery/task.py",
        "        delivery.completed = True\n",
        '        connection.execute("COMMIT")\n'
        '        connection.execute("BEGIN IMMEDIATE")\n'
        "        delivery.completed = True\n",
        ("grading",),
    ),
    Bug(
        "a Celery task that waits for its retry waits in the memory of its worker",
        "sqlite",
        "messaging/celery/delivery.py",
        "        copy = self._copy(claim.round + 1, claim.attempt, delay)\n",
        "        self._process.clock.sleep(delay)\n"
        "        copy = self._copy(claim.round + 1, claim.attempt, 0.0)\n",
        ("grading",),
    ),
)
"""All bugs."""


def run(plan: Plan) -> CampaignOutcome:
    """Run the campaign: in full all bugs, in short a random third of them."""
    outcome = CampaignOutcome()
    bugs = [bug for bug in BUGS if bug.store == plan.store]
    if not plan.full:
        bugs = plan.rng().sample(bugs, (len(bugs) + 2) // 3)
    failure = _facts(plan, SOURCE)
    outcome.expect(not failure, f"the unchanged engine fails the suite: {failure}")
    caught = 0
    for number, bug in enumerate(bugs):
        copy = plan.folder / f"bug-{number}"
        if not plant(bug, copy):
            outcome.findings.append(
                f"{bug.name}: the code to replace is not in {bug.file} any more; update BUGS"
            )
            continue
        by = catch(plan, bug, copy)
        echo(f"    {bug.name}: {by or 'NOT CAUGHT'}")
        outcome.expect(bool(by), f"not caught: {bug.name}")
        outcome.notes.append(f"{bug.name}: {by or 'not caught'}")
        caught += bool(by)
        shutil.rmtree(copy)
    outcome.figures |= {"planted": len(bugs), "caught": caught}
    return outcome


def with_bug(bug: Bug) -> str | None:
    """Return the file's text with the bug in it; None if the code to replace is not there."""
    text = (SOURCE / "holdfast" / bug.file).read_text("utf-8")
    for old, new in ((bug.old, bug.new), *bug.also):
        if text.count(old) != 1:
            return None
        text = text.replace(old, new)
    return text


def plant(bug: Bug, copy: Path) -> bool:
    """Copy the engine with `bug` in it; return False if the code to replace is not there."""
    text = with_bug(bug)
    if text is None:
        return False
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCE / "holdfast", copy / "holdfast", ignore=ignored)
    (copy / "holdfast" / bug.file).write_text(text, "utf-8")
    return True


def catch(plan: Plan, bug: Bug, source: Path) -> str:
    """Return the fact or finding that caught the bug in `source`; empty if none did."""
    fact = _facts(plan, source)
    if fact:
        return f"fact {fact}"
    for campaign in bug.campaigns:
        found = _campaign(plan, campaign, source)
        if found:
            return f"campaign {campaign}: {found}"
    return ""


def _facts(plan: Plan, source: Path) -> str:
    status, output = _run(source, "campaigns.conformance", plan.store)
    if status not in {0, 1}:
        raise RuntimeError(f"the suite did not run:\n{output[-2000:]}")
    return output.strip() if status else ""


def _campaign(plan: Plan, campaign: str, source: Path) -> str:
    results = str(plan.folder / "planted.json")
    status, output = _run(
        source,
        "campaigns",
        campaign,
        "--short",
        "--store",
        plan.store,
        "--seed",
        str(plan.seed),
        "--results",
        results,
    )
    found = [line.strip() for line in output.splitlines() if line.strip().startswith("FOUND")]
    if status not in {0, 1} or (status and not found):
        raise RuntimeError(f"the campaign did not run:\n{output[-2000:]}")
    for line in output.splitlines():
        if "kept:" in line:
            shutil.rmtree(line.partition(": ")[2], ignore_errors=True)
    return found[0].removeprefix("FOUND ")[:120] if found else ""


def _run(source: Path, module: str, *arguments: str) -> tuple[int, str]:
    # Coverage must not measure the copy with the bug.
    plain = {name: value for name, value in environment().items() if "COV" not in name}
    done = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**plain, "PYTHONPATH": f"{source}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT,
    )
    return done.returncode, done.stdout + (done.stderr if done.returncode not in {0, 1} else "")
