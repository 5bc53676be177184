"""Test the tests: plant known bugs in a copy of the engine, one by one; each must be caught.

A bug is caught by a fact of the conformance suite or by a finding of a short campaign. The copy
without a bug must pass the suite, else nothing that is caught would mean anything.
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from campaigns.fleet import ROOT, SOURCE, environment
from campaigns.plan import Outcome, Plan, say

_PATIENCE = 300.0


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug to plant: in `file`, `old` becomes `new`.

    `old` must be there exactly once, and so must what `also` replaces. `campaigns` are tried in
    their order where the suite does not catch it.
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

BUGS = (
    Bug(
        "finish does not check the token",
        "sqlite",
        f"{_SQLITE}/finish.py",
        "row.token != item.lease.token or ",
        "",
    ),
    Bug(
        "a completion that is not looked up does not check the token",
        "sqlite",
        f"{_SQL}/finish.sql",
        "AND status = 'processing' AND token = :token;",
        "AND status = 'processing';",
        ("stop", "kill"),
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
        "rescue takes leases that have not run out",
        "sqlite",
        f"{_SQL}/maintenance.sql",
        "lease_expires_at IS NOT NULL AND lease_expires_at <= :now",
        "lease_expires_at IS NOT NULL AND :now > 0",
    ),
    Bug(
        "trials are not limited",
        "sqlite",
        "jobs/downstreams/claim_permits.py",
        "    state = transitions.state_at(circuit, now)\n    policy = settings.breaker",
        "    state = CircuitState.CLOSED\n    policy = settings.breaker",
        ("brownout",),
    ),
    Bug(
        "a transaction begins as a reader",
        "sqlite",
        f"{_SQLITE}/writer.py",
        '"BEGIN IMMEDIATE"',
        '"BEGIN"',
    ),
    Bug(
        "an answer comes before the commit, which may fail",
        "sqlite",
        f"{_SQLITE}/writer.py",
        '                db.execute("COMMIT")\n',
        "                for each in done:\n                    each.future.set_result("
        '(each.value, 0))\n                done = []\n                db.execute("ROLLBACK")\n',
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
        "finish does not check the token",
        "postgres",
        f"{_POSTGRES}/finish.sql",
        "                AND token = p_reports.tokens[1]\n",
        "",
        also=(
            (
                "                AND jobs.token = coalesce(given.token, p_reports.tokens[1])\n"
                "                AND jobs.status = 'processing'\n"
                "                AND (t > jobs.deadline_at)",
                "                AND jobs.status = 'processing'\n"
                "                AND (t > jobs.deadline_at)",
            ),
        ),
    ),
    Bug(
        "progress does not check the token",
        "postgres",
        f"{_POSTGRES}/control.sql",
        " AND token = p_token\n    RETURNING seq INTO moved",
        "\n    RETURNING seq INTO moved",
    ),
    Bug(
        "an attempt is not counted at the claim",
        "postgres",
        f"{_POSTGRES}/claim.sql",
        "attempt_count = attempt_count + 1,",
        "",
    ),
    Bug(
        "rescue takes leases that have not run out",
        "postgres",
        f"{_POSTGRES}/leases.sql",
        "jobs.worker_id IS NOT NULL AND jobs.lease_expires_at <= t",
        "jobs.worker_id IS NOT NULL",
    ),
    Bug(
        "two claims may see the same job",
        "postgres",
        f"{_POSTGRES}/claim.sql",
        "                LIMIT wanted.quota\n                FOR UPDATE SKIP LOCKED\n",
        "                LIMIT wanted.quota\n",
        ("kill", "kill"),
        (
            ("SELECT jobs.ctid AS place", "SELECT jobs.seq AS place"),
            ("WHERE ctid = ANY (ARRAY(", "WHERE seq = ANY (ARRAY("),
        ),
    ),
    Bug(
        "a held lane is claimed from",
        "postgres",
        f"{_POSTGRES}/claim.sql",
        ") THEN 'held'",
        ") THEN 'free'",
    ),
    Bug(
        "a claim is judged by the worker's clock",
        "postgres",
        "store/postgres/store.py",
        "self._ticker.tick(worker_id, finished, claim, now)",
        "self._ticker.tick(worker_id, finished, claim, now or self._clock.wall())",
        ("clock",),
    ),
    Bug(
        "rescue is judged by the worker's clock",
        "postgres",
        "store/postgres/store.py",
        "maintenance.rescue(self._database, limit, now)",
        "maintenance.rescue(self._database, limit, now or self._clock.wall())",
        ("clock",),
    ),
    Bug(
        "heartbeats extend nothing",
        "postgres",
        "jobs/worker/heartbeat.py",
        "        if not runs:\n",
        "        if runs:\n",
        ("clock",),
    ),
)
"""Every bug that is planted."""


def run(plan: Plan) -> Outcome:
    """Run the campaign: all bugs in full, every third one, chosen by the seed, in short."""
    outcome = Outcome()
    bugs = [bug for bug in BUGS if bug.store == plan.store]
    if not plan.full:
        bugs = plan.chance().sample(bugs, (len(bugs) + 2) // 3)
    healthy = _facts(plan, SOURCE)
    outcome.expect(not healthy, f"the engine as it is fails the suite: {healthy}")
    caught = 0
    for number, bug in enumerate(bugs):
        copy = plan.folder / f"bug-{number}"
        if not plant(bug, copy):
            outcome.findings.append(f"{bug.name}: its place in {bug.file} is gone; plant it anew")
            continue
        by = catch(plan, bug, copy)
        say(f"    {bug.name}: {by or 'NOT CAUGHT'}")
        outcome.expect(bool(by), f"not caught: {bug.name}")
        outcome.notes.append(f"{bug.name}: {by or 'not caught'}")
        caught += bool(by)
        shutil.rmtree(copy)
    outcome.figures |= {"planted": len(bugs), "caught": caught}
    return outcome


def with_bug(bug: Bug) -> str | None:
    """Return the text of the bug's file with the bug in it; None where its place is gone."""
    text = (SOURCE / "holdfast" / bug.file).read_text("utf-8")
    for old, new in ((bug.old, bug.new), *bug.also):
        if text.count(old) != 1:
            return None
        text = text.replace(old, new)
    return text


def plant(bug: Bug, copy: Path) -> bool:
    """Copy the engine with `bug` in it; return whether its place was found."""
    text = with_bug(bug)
    if text is None:
        return False
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCE / "holdfast", copy / "holdfast", ignore=ignored)
    (copy / "holdfast" / bug.file).write_text(text, "utf-8")
    return True


def catch(plan: Plan, bug: Bug, source: Path) -> str:
    """Return what caught the bug in `source`; empty where nothing did."""
    fact = _facts(plan, source)
    if fact:
        return f"fact {fact}"
    for campaign in bug.campaigns:
        found = _campaign(plan, campaign, source)
        if found:
            return f"campaign {campaign}: {found}"
    return ""


def _facts(plan: Plan, source: Path) -> str:
    status, said = _run(source, "campaigns.conformance", plan.store)
    if status not in {0, 1}:
        raise RuntimeError(f"the suite did not run:\n{said[-2000:]}")
    return said.strip() if status else ""


def _campaign(plan: Plan, campaign: str, source: Path) -> str:
    results = str(plan.folder / "planted.json")
    status, said = _run(
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
    found = [line.strip() for line in said.splitlines() if line.strip().startswith("FOUND")]
    if status not in {0, 1} or (status and not found):
        raise RuntimeError(f"the campaign did not run:\n{said[-2000:]}")
    for line in said.splitlines():
        if "kept for you:" in line:
            shutil.rmtree(line.partition(": ")[2], ignore_errors=True)
    return found[0].removeprefix("FOUND ")[:120] if found else ""


def _run(source: Path, module: str, *arguments: str) -> tuple[int, str]:
    # A copy with a bug in it must not be counted among the sources that the tests cover.
    plain = {name: value for name, value in environment().items() if "COV" not in name}
    done = subprocess.run(  # noqa: S603 - a child of our own
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**plain, "PYTHONPATH": f"{source}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE,
    )
    return done.returncode, done.stdout + (done.stderr if done.returncode not in {0, 1} else "")
