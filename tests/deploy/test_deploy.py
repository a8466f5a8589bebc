"""What is in deploy/: every metric that it names exists, its files fit together, and its commands work."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, ProcessCollector

from permitflow.exchange import Exchange
from permitflow.metrics import ExchangeCollector
from tests.permitflow_tools.cli.conftest import serving

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVE: list[str] = COMPOSE["services"]["exchange"]["command"]
METRIC = re.compile(r"\b(?:permitflow|process)_\w+")


def expressions() -> Iterator[str]:
    """Of the alerts, and of the panels and variables of the dashboard."""
    for group in yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    board = json.loads((DEPLOY / "grafana/permitflow.json").read_text())
    yield from (target["expr"] for panel in board["panels"] for target in panel["targets"])
    yield from (variable["query"] for variable in board["templating"]["list"] if variable["type"] == "query")


async def test_every_metric_that_alerts_and_dashboard_name_exists() -> None:
    registry = CollectorRegistry()
    registry.register(ExchangeCollector(Exchange()))
    ProcessCollector(registry=registry)
    families = await asyncio.to_thread(lambda: [*registry.collect()])
    known = {f"{each.name}_total" if each.type == "counter" else each.name for each in families}
    named = {name for expression in expressions() for name in METRIC.findall(expression)}
    assert len(named) > 10
    assert named - known == set()


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads((DEPLOY / "grafana/permitflow.json").read_text())["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is a part of Prometheus, which is not installed")
def test_the_alerts_fire_when_they_should_and_else_not() -> None:
    for what in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]):
        done = subprocess.run(["promtool", *what], cwd=DEPLOY, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_services_name_files_stages_and_volumes_that_exist() -> None:
    stages = re.findall(r"^FROM \S+ AS (\w+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    for name, service in COMPOSE["services"].items():
        if "build" in service:
            assert service["build"]["target"] in stages, name
            assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (DEPLOY / source).is_file() if source.startswith(".") else source in COMPOSE["volumes"], volume
        assert set(service.get("depends_on", ())) <= set(COMPOSE["services"]), name


def test_only_the_loopback_of_the_host_reaches_the_services() -> None:
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", ())]
    assert len(ports) == 4
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_prometheus_asks_where_the_exchange_answers() -> None:
    (port,) = (each.rpartition(":")[2] for each in SERVE if each.startswith("--metrics-address="))
    (asked,) = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())["scrape_configs"]
    assert asked["static_configs"] == [{"targets": [f"exchange:{port}"]}]


def test_what_is_copied_into_an_image_exists_and_is_not_ignored() -> None:
    kept = [line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [
        source
        for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
        for source in sources.split()
    ]
    assert len(copied) > 5
    for source in copied:
        assert (DEPLOY.parent / source).exists(), source
        assert source.split("/")[0] in kept, source


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, str]:
    """Where the services have them, and where they are here; with everything that the first service makes."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    found = {f"/run/{name}": str(tmp_path / name) for name in ("exchange", "clients")}
    script, *arguments = COMPOSE["services"]["certificates"]["entrypoint"]
    for folder in found.values():
        Path(folder).mkdir()
    for _ in range(2):  # the second time it changes nothing
        subprocess.run(["sh", DEPLOY / script, *(found[each] for each in arguments)], check=True, timeout=60)
    return found


def here(option: str, folders: dict[str, str]) -> str:
    """An option of a service, for this machine."""
    option = re.sub(r"0\.0\.0\.0:\d+", "127.0.0.1:0", option)
    for there, own in folders.items():
        option = option.replace(there, own)
    return option


def test_clients_get_nothing_with_which_they_could_be_the_exchange(folders: dict[str, str]) -> None:
    assert sorted(os.listdir(folders["/run/clients"])) == ["ca.pem", "job.token"]
    assert sorted(os.listdir(folders["/run/exchange"])) == ["exchange.key", "exchange.pem", "rights.toml"]


@pytest.mark.long
def test_two_spark_jobs_run_through_the_exchange_of_the_services(folders: dict[str, str]) -> None:
    options = [part for option in SERVE[1:] for part in here(option, folders).split("=", 1)]
    with serving(*options, "--quiet") as exchange:
        assert exchange.stdout is not None  # it is a pipe
        address, metrics, page = (exchange.stdout.readline().split()[-1] for _ in range(3))
        assert (metrics.startswith("http://"), page.startswith("https://")) == (True, True)
        health = [here(part, folders) for part in COMPOSE["services"]["exchange"]["healthcheck"]["test"][2:]]
        asked = [part.replace("localhost:50051", address) for part in health]
        subprocess.run([sys.executable, "-m", "permitflow_tools.cli", *asked], check=True, timeout=60)
        environment = {
            **os.environ,
            "PERMITFLOW_ADDRESS": address,
            "PERMITFLOW_FILES": folders["/run/clients"],
            "PERMITFLOW_ROWS": "20000",
        }
        jobs = [
            subprocess.Popen(
                [sys.executable, DEPLOY / "job.py", *COMPOSE["services"][name]["command"]],
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
            )
            for name in ("writer", "reader")
        ]
        told = [job.communicate(timeout=250)[0].strip() for job in jobs]
    assert told == ["wrote 20000 orders", "read 20000 90000.0"]
