"""Run the campaigns: `python -m campaigns [name ...] [--store sqlite]`."""

import argparse
import random
import shutil
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from tests.support.postgres_server import PostgresMissing

from campaigns.plan import STORES, Campaign, CampaignOutcome, Plan, echo
from campaigns.results import RESULTS, write

CAMPAIGNS = {
    "kill": "SIGKILL for workers, at random moments and at named points",
    "transaction": "SIGKILL for workers whose handlers commit their own rows with their jobs",
    "stop": "workers paused for longer than their leases: no stale write is accepted",
    "store": "outages of the store: killed, restarted, locked, disk full",
    "held": "the cost of a claim with a million held jobs; trial calls after the release",
    "brownout": "a downstream that fails and recovers repeatedly, with 50 worker slots",
    "clock": "workers whose clocks are an hour ahead or behind",
    "periodic": "periodic jobs while leaders are killed and paused: one job for each slot",
    "requeue": "runs over 10 000 dead letters that are aborted and killed half-way",
    "model": "random operations on the store and on a model in memory, compared",
    "production": "two apps on one server: kills, restarts, failover, poolers, poison, all at once",
    "conversion": "SIGKILL for the whole conversion service during uploads and conversions",
    "abuse": "hostile PDFs, gateways and clients: no 5xx, bounded memory, others are served",
    "ingestion": "SIGKILL for the whole ingestion service while documents are taken in and indexed",
    "grading": "SIGKILL for Celery workers and the server, while submissions are graded",
    "planted": "known bugs, inserted one by one: the suite or a campaign must detect each",
}


def main() -> int:
    """Run the chosen campaigns; return 0 if all passed, 1 if one failed."""
    options = _parse()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    stores = STORES if options.store == "both" else (options.store,)
    failed = []
    for name in options.name or list(CAMPAIGNS):
        for store in stores:
            folder = Path(tempfile.mkdtemp(prefix=f"holdfast-campaign-{name}-"))
            plan = Plan(name, store, seed, not options.short, folder)
            outcome = run_one(plan)
            write(Path(options.results), plan, outcome)
            if outcome.findings:
                failed.append(plan)
                echo(f"    kept: {folder}")
            else:
                shutil.rmtree(folder, ignore_errors=True)
    for plan in failed:
        echo(f"FAILED {plan.campaign} on {plan.store}; replay: {plan.replay}")
    return 1 if failed else 0


def _parse() -> argparse.Namespace:
    listed = "\n".join(f"  {name:11s} {what}" for name, what in CAMPAIGNS.items())
    parser = argparse.ArgumentParser(
        prog="python -m campaigns",
        description=__doc__,
        epilog=f"campaigns:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "name", nargs="*", choices=[[], *CAMPAIGNS], metavar="name", help="default: all campaigns"
    )
    parser.add_argument("--seed", type=int, help="repeat the random choices of an earlier run")
    parser.add_argument("--store", choices=[*STORES, "both"], default="both", help="default: both")
    parser.add_argument(
        "--results", default=str(RESULTS), help="results file (default: %(default)s)"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--short", action="store_true", help="about a minute each")
    form.add_argument(
        "--full", action="store_true", help="for a release, about 45 minutes in all (default)"
    )
    return parser.parse_args()


def run_one(plan: Plan) -> CampaignOutcome:
    """Run one campaign and print its outcome; an exception in it becomes a finding."""
    form = "full" if plan.full else "short"
    echo(f"{plan.campaign} on {plan.store} ({form}, seed {plan.seed})")
    campaign: Campaign = import_module(f"campaigns.{plan.campaign}").run
    began = time.monotonic()
    try:
        outcome = campaign(plan)
    except PostgresMissing as missing:
        outcome = CampaignOutcome(skipped=str(missing))
    except Exception as error:
        outcome = CampaignOutcome(findings=[f"the campaign raised {type(error).__name__}: {error}"])
    outcome.figures["total_seconds"] = round(time.monotonic() - began, 1)
    for name, value in outcome.figures.items():
        echo(f"    {name}: {value}")
    for note in outcome.notes:
        echo(f"    note: {note}")
    for finding in outcome.findings[:20]:
        echo(f"    FOUND {finding}")
    if outcome.skipped:
        echo(f"    skipped: {outcome.skipped}")
    elif outcome.findings:
        echo(f"    {len(outcome.findings)} findings; replay: {plan.replay}")
    else:
        echo("    passed")
    return outcome


if __name__ == "__main__":
    sys.exit(main())
