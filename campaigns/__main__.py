"""Run the campaigns: `python -m campaigns [name ...]`."""

import argparse
import random
import shutil
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from campaigns.plan import STORES, Campaign, Outcome, Plan, say
from campaigns.results import RESULTS, write
from holdfast.testing.postgres import PostgresMissing

CAMPAIGNS = {
    "kill": "kill -9 of workers, at random and at named points",
    "stop": "SIGSTOP beyond the lease, then SIGCONT: no stale write is accepted",
    "store": "the store goes away and comes back: killed, restarted, locked, full",
    "held": "a claim's cost beside a million held jobs; trials after reopening",
    "brownout": "a downstream that fails and recovers, with 50 slots on it",
    "clock": "workers whose clocks are an hour off",
    "model": "random steps on the store and on a model in memory",
    "conversion": "kill -9 of the whole conversion service while PDFs are uploaded and converted",
    "planted": "known bugs planted one by one: each must be caught",
}


def main() -> int:
    """Run what was asked for; the exit code says whether every promise held."""
    asked = _parse()
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(10**6)
    stores = STORES if asked.store == "both" else (asked.store,)
    failed = []
    for name in asked.name or list(CAMPAIGNS):
        for store in stores:
            folder = Path(tempfile.mkdtemp(prefix=f"holdfast-campaign-{name}-"))
            plan = Plan(name, store, seed, not asked.short, folder)
            outcome = run_one(plan)
            write(Path(asked.results), plan, outcome)
            if outcome.findings:
                failed.append(plan)
                say(f"    kept for you: {folder}")
            else:
                shutil.rmtree(folder, ignore_errors=True)
    for plan in failed:
        say(f"FAILED {plan.campaign} on {plan.store}; replay: {plan.replay}")
    return 1 if failed else 0


def _parse() -> argparse.Namespace:
    listed = "\n".join(f"  {name:10s} {what}" for name, what in CAMPAIGNS.items())
    parser = argparse.ArgumentParser(
        prog="python -m campaigns",
        description=__doc__,
        epilog=f"campaigns:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="*", choices=[[], *CAMPAIGNS], help="default: all of them")
    parser.add_argument("--seed", type=int, help="repeat the choices of an earlier run")
    parser.add_argument("--store", choices=[*STORES, "both"], default="both")
    parser.add_argument("--results", default=str(RESULTS), help="where the results are kept")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--short", action="store_true", help="a minute or so each")
    form.add_argument("--full", action="store_true", help="the form for a release (default)")
    return parser.parse_args()


def run_one(plan: Plan) -> Outcome:
    """Run a campaign; where it breaks, the outcome says so."""
    form = "full" if plan.full else "short"
    say(f"{plan.campaign} on {plan.store} ({form}, seed {plan.seed})")
    campaign: Campaign = import_module(f"campaigns.{plan.campaign}").run
    began = time.monotonic()
    try:
        outcome = campaign(plan)
    except PostgresMissing as missing:
        outcome = Outcome(skipped=str(missing))
    except Exception as error:
        outcome = Outcome(findings=[f"the campaign itself broke: {type(error).__name__}: {error}"])
    outcome.figures["took_seconds"] = round(time.monotonic() - began, 1)
    for name, value in outcome.figures.items():
        say(f"    {name}: {value}")
    for note in outcome.notes:
        say(f"    note: {note}")
    for finding in outcome.findings[:20]:
        say(f"    FOUND {finding}")
    if outcome.skipped:
        say(f"    skipped: {outcome.skipped}")
    elif outcome.findings:
        say(f"    {len(outcome.findings)} findings; replay: {plan.replay}")
    else:
        say("    passed")
    return outcome


if __name__ == "__main__":
    sys.exit(main())
