"""The alert rules and the Grafana dashboard, checked by Prometheus itself."""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import httpx
import pytest
from tests.support.programs import find, free_port, running, wait_until
from tests.support.waiting import until_sync

from holdfast.telemetry.metric_catalogue import METRICS, MetricType

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "holdfast.json"
METRIC = re.compile(
    r"\b((?:holdfast_|queue_depth|jobs_active|jobs_failed_|job_processing_|manual_)\w*)"
)


def expressions():
    """Return the PromQL of every panel."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def series_names():
    """Return every name that a metric of the catalogue has in Prometheus."""
    names = set(METRICS)
    for metric in METRICS.values():
        if metric.type is MetricType.HISTOGRAM:
            names |= {f"{metric.name}_{part}" for part in ("bucket", "sum", "count")}
    return names


def promtool_says(promtool, *arguments, cwd=None):
    done = subprocess.run(
        [promtool, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_can_be_loaded(promtool):
    assert "8 rules found" in promtool_says(promtool, "check", "rules", str(RULES))


def test_every_rule_fires_and_does_not_fire_as_it_should(promtool):
    promtool_says(promtool, "test", "rules", "alerts_test.yml", cwd=RULES.parent)


def test_every_rule_has_a_test_in_which_it_fires_and_one_in_which_it_does_not():
    names = set(re.findall(r"- alert: (\w+)", RULES.read_text()))
    tests = (RULES.parent / "alerts_test.yml").read_text()
    outcomes = re.findall(r"alertname: (\w+)\n\s+exp_alerts:( \[\])?", tests)
    assert names == {name for name, silent in outcomes if silent}
    assert names == {name for name, silent in outcomes if not silent}


@pytest.mark.parametrize("text", [RULES.read_text(), *expressions()], ids=lambda text: text[:40])
def test_every_metric_that_is_named_exists(text):
    used = set(METRIC.findall(re.sub(r"#.*|summary:.*|action:.*", "", text)))
    assert used
    assert used <= series_names()


def test_every_panel_of_the_dashboard_can_be_parsed(promtool, tmp_path):
    queries = [
        expr.replace("$__rate_interval", "5m").replace("$__range", "6h") for expr in expressions()
    ]
    rules = [{"record": f"panel:{place}", "expr": expr} for place, expr in enumerate(queries)]
    written = tmp_path / "panels.yml"
    written.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))  # JSON is YAML

    found = promtool_says(promtool, "check", "rules", str(written))

    assert f"{len(queries)} rules found" in found


MODULE = """
    from holdfast import App, JobContext, Permanent

    app = App("letters")

    @app.job()
    async def write(ctx: JobContext) -> None:
        raise Permanent("GW_4XX", "no")

    @app.periodic(every=1)
    async def tick(ctx: JobContext) -> None:
        ctx.enqueue(write)
"""


def test_a_real_prometheus_scrapes_a_server_and_evaluates_the_rules(tmp_path):
    (tmp_path / "watched_letters.py").write_text(textwrap.dedent(MODULE))
    port, at = free_port(), free_port()
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [
            {"job_name": "holdfast", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
        ],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    serve = [sys.executable, "-m", "holdfast", "serve", "watched_letters:app"]
    settings = {"PORT": str(port), "HOLDFAST_DATA_DIR": str(tmp_path / "data")}
    prometheus = [
        find("prometheus", "prometheus"), "--config.file=prometheus.yml",
        f"--storage.tsdb.path={tmp_path / 'tsdb'}", f"--web.listen-address=127.0.0.1:{at}",
    ]  # fmt: skip
    log = tmp_path / "log"
    with (
        running(serve, log=log, environment=settings, cwd=tmp_path),
        running(prometheus, log=log, cwd=tmp_path),
        httpx.Client(base_url=f"http://127.0.0.1:{at}/api/v1", trust_env=False) as client,
    ):
        wait_until(lambda: _answers(client), "prometheus", log)
        until_sync(lambda: _value(client, 'jobs_failed_total{error_code="GW_4XX"}') > 0)
        until_sync(lambda: _value(client, "holdfast_dead_letters") > 0)
        rules = client.get("/rules").json()["data"]["groups"][0]["rules"]
        assert len(rules) == 8
        assert {rule["health"] for rule in rules} <= {"ok", "unknown"}
        assert not [rule for rule in rules if rule.get("lastError")]


def _answers(client):
    try:
        return client.get("/status/buildinfo").status_code == 200
    except httpx.TransportError:
        return False


def _value(client, query):
    found = client.get("/query", params={"query": query}).json()["data"]["result"]
    return float(found[0]["value"][1]) if found else 0.0
