"""The results file: the last run of each campaign, store and form."""

import json
import platform
from datetime import UTC, datetime
from pathlib import Path

from campaigns.plan import CampaignOutcome, Plan

RESULTS = Path(__file__).parent / "results" / "latest.json"

_SHOWN = 50


def write(path: Path, plan: Plan, outcome: CampaignOutcome) -> None:
    """Write an outcome to the file at `path`, in place of the previous one of its kind."""
    kept = json.loads(path.read_text("utf-8")) if path.exists() else {}
    name = f"{plan.campaign}/{plan.store}/{'full' if plan.full else 'short'}"
    verdict = "skipped" if outcome.skipped else "failed" if outcome.findings else "passed"
    kept[name] = {
        "verdict": verdict,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "replay": plan.replay,
        "figures": outcome.figures,
        "findings": outcome.findings[:_SHOWN],
        "notes": outcome.notes + ([outcome.skipped] if outcome.skipped else []),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(dict(sorted(kept.items())), indent=2) + "\n", "utf-8")
