"""``permitflow explain`` writes a page or a drawing, whole or not at all."""

import asyncio
import json
import os
import webbrowser
from itertools import takewhile
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from permitflow import ChannelParameters, GateParameters, InputGate, LocalReceiver, LocalSender, open_channel
from permitflow.tracing import FileTrace
from tests.permitflow_tools.cli.conftest import Command, Report
from tests.support.pages import PageReader

STUCK = ("--row-permits", "8", "--permit-batch", "3", "--max-chunk-cost", "7")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def embedded(page: Path) -> dict[str, Any]:
    (text,) = PageReader(page.read_text(encoding="utf-8")).data.values()
    document = json.loads(text)
    assert isinstance(document, dict)
    return document


def calls(document: dict[str, Any]) -> list[str]:
    """The steps of a page, as in ``OfferChunk(2)``."""
    names = [document["actions"][number]["name"] for number in document["steps"]["action"]]
    arguments = document["steps"]["argument"]
    return [name if argument < 0 else f"{name}({argument})" for name, argument in zip(names, arguments, strict=True)]


# Numbers.


def test_a_deadlock_is_shown_by_the_run_that_check_prints(command: Command, report: Report, folder: Path) -> None:
    code, stdout, stderr = command("explain", *STUCK)
    assert (code, stderr) == (0, "")
    assert stdout.startswith("stuck: After 5 steps a chunk that needs 7 permits waits, 6 are at the sender")
    assert stdout.endswith("written: permitflow-explain.html\n")
    document = embedded(folder / "permitflow-explain.html")
    check_code, checked = report("check", *STUCK)
    assert check_code == 1
    steps = checked["run"]
    assert calls(document) == [
        f"{step['action']}({step['arguments'][0]})" if step["arguments"] else step["action"] for step in steps[1:]
    ]
    for place in ("permits", "inbox", "unreturned", "grants"):
        assert document["ledger"]["rows"][place] == [step[place] for step in steps]


def test_a_live_channel_is_shown_by_a_run_that_fills_and_drains(report: Report, folder: Path) -> None:
    code, said = report("explain", "--row-permits", "2048", "--permit-batch", "256", "--barriers", "-o", "live.html")
    assert code == 0
    assert said["verdict"] == "live"
    assert said["files"] == ["live.html"]
    document = embedded(folder / "live.html")
    assert document["remarks"][0].startswith("Proved, for runs of any length: ")
    assert min(document["ledger"]["rows"]["permits"]) < 1792
    assert set(document["ledger"]) == {"rows", "barriers", "watermarks"}


def test_a_state_graph_is_written(report: Report, folder: Path) -> None:
    small = ("--graph", "--row-permits", "3", "--permit-batch", "2", "--max-chunk-cost", "3")
    code, said = report("explain", *small, "-o", "graph.html")
    assert (code, said["verdict"]) == (0, "stuck")
    assert said["sentence"].startswith("132 states and 272 steps: 1 state is stuck")
    assert len(embedded(folder / "graph.html")["states"]) == 132
    assert said["files"] == ["graph.html"]
    assert report("explain", *STUCK, "--svg", "run.svg")[1]["files"] == ["run.svg"], "no page beside it"


def test_a_state_graph_is_listed_without_graphviz_and_not_drawn(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    tiny = ("--graph", "--row-permits", "2", "--permit-batch", "2", "--max-chunk-cost", "2")
    assert command("explain", *tiny, "-o", "graph.html")[0] == 0
    assert (folder / "graph.html").read_text().count('<button type="button" id="state-') == 36
    code, _, problem = command("explain", *tiny, "--svg", "graph.svg")
    assert code == 2
    assert "needs the program `dot` of Graphviz" in problem


# Traces.


@pytest.fixture
def trace(run: asyncio.Runner, folder: Path) -> Path:
    """What two channels recorded."""

    async def stream(name: str, record: FileTrace) -> None:
        ends: tuple[LocalSender[list[int]], LocalReceiver[list[int]]]
        agreed = ChannelParameters(row_permits=16, permit_batch=4)
        ends = open_channel(agreed, name=name, record=record.recorder)
        sender, receiver = ends
        for size in (3, 7, 1):
            await sender.send([0] * size)
            await receiver.receive()
        await sender.end()

    with FileTrace(folder / "run.jsonl") as recording:
        run.run(stream("orders", recording))
        run.run(stream("items", recording))
    return folder / "run.jsonl"


def test_a_recorded_channel_is_shown(report: Report, trace: Path, folder: Path) -> None:
    code, said = report("explain", str(trace), "--channel", "items")
    assert (code, said["verdict"]) == (0, "valid")
    document = embedded(folder / "permitflow-explain.html")
    assert document["title"] == "Recorded run of channel items"
    offered = [call for call in calls(document) if call.startswith("Offer")]
    assert offered == ["OfferChunk(3)", "OfferChunk(7)", "OfferChunk(1)"]


def test_a_wrong_trace_is_shown_up_to_what_is_wrong(report: Report, trace: Path, folder: Path) -> None:
    lines = trace.read_text().splitlines(keepends=True)
    (place, *_) = [
        number for number, line in enumerate(lines) if '"items"' in line and '"Consume"' in line and '"rows": 7' in line
    ]
    lines[place] = lines[place].replace("[7, 0, 0]", "[6, 0, 0]")
    trace.write_text("".join(lines))
    code, said = report("explain", str(trace), "--channel", "items")
    assert (code, said["verdict"]) == (0, "invalid")
    assert "Consume (7 rows, 6 row permits) is impossible" in said["sentence"]
    headings = [section["heading"] for section in embedded(folder / "permitflow-explain.html")["conclusions"]]
    assert headings == ["What no behaviour allows here", "What would have been allowed"]


def test_a_gates_input_tells_its_credit_and_that_it_is_blocked(
    command: Command, run: asyncio.Runner, folder: Path
) -> None:
    async def produce(sender: LocalSender[int], chunks: int) -> None:
        for _ in range(chunks):
            await sender.send(1, 1)
        await sender.send_barrier()
        await sender.end()

    async def gate_of(recording: FileTrace) -> None:
        parameters = GateParameters(inputs=2, exclusive=0, floating=2)
        async with InputGate[int](parameters) as gate, asyncio.TaskGroup() as group:
            for name, chunks in (("a", 1), ("b", 3)):
                group.create_task(produce(gate.open_channel(name, record=recording.recorder), chunks))
            async for _ in gate:
                pass

    with FileTrace(folder / "gate.jsonl") as recording:
        run.run(gate_of(recording))
    code, stdout, _ = command("explain", "gate.jsonl", "--channel", "a", "-o", "a.html", "--svg", "a.svg")
    assert code == 0
    assert "are a behaviour of the specification" in " ".join(stdout.split())
    made = {call.split("(")[0] for call in calls(embedded(folder / "a.html"))}
    assert {"ConsumeBarrier", "Align", "ConsumeEnd"} <= made
    drawing = (folder / "a.svg").read_text()
    assert all(words in drawing for words in ("at the sender", "on its way", "blocked", "over"))


def test_one_of_several_channels_must_be_chosen(command: Command, trace: Path) -> None:
    code, stdout, stderr = command("explain", str(trace))
    assert (code, stdout) == (2, "")
    assert "the trace holds 2 channels; choose one with --channel: orders, items" in stderr
    code, _, stderr = command("explain", str(trace), "--channel", "item")
    assert code == 2
    assert "there is no channel 'item'; did you mean items?" in stderr


def test_a_page_that_cannot_be_finished_leaves_the_old_one(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = folder / "page.html"
    page.write_text("the old page")

    def full(_file: int, _path: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("permitflow_tools.cli.output.os.replace", full)
        code, _, stderr = command("explain", *STUCK, "-o", str(page))
    assert code == 2
    assert f"cannot write {page}: No space left on device" in stderr
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("page.html", "the old page")]
    assert command("explain", *STUCK, "-o", str(page))[0] == 0
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_the_target_of_a_link_is_written_and_the_link_stays(command: Command, folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "page.html").symlink_to("elsewhere/page.html")
    assert command("explain", *STUCK, "-o", "page.html")[0] == 0
    assert (folder / "page.html").is_symlink()
    assert (folder / "elsewhere" / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_a_pipe_stays_a_pipe(command: Command, folder: Path) -> None:
    os.mkfifo(folder / "drawing.svg")
    reader = os.open(folder / "drawing.svg", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert command("explain", *STUCK, "--svg", "drawing.svg")[0] == 0
        assert os.read(reader, 4).decode() == "<svg"
    finally:
        os.close(reader)
    assert (folder / "drawing.svg").is_fifo()


def test_a_file_that_the_caller_has_open_is_not_replaced(command: Command, folder: Path) -> None:
    with (folder / "drawing.svg").open("w+") as file:
        assert command("explain", *STUCK, "--svg", f"/dev/fd/{file.fileno()}")[0] == 0
        assert file.read(4) == "<svg"


# Models of one's own.

OWN = "tests.support.own_model"


def test_a_model_of_ones_own_is_a_table_and_a_page(command: Command, folder: Path) -> None:
    code, stdout, stderr = command("explain", f"{OWN}:CALLS", "--parameters", "SIX", "-o", "own.html")
    assert (code, stderr) == (0, "")
    assert "10    send           5     2         1        2        0\n" in stdout
    assert stdout.endswith("stuck: After 10 steps nothing but the application can move.\nwritten: own.html\n")
    assert calls(embedded(folder / "own.html"))[:3] == ["send", "send", "take"]


def test_the_model_in_the_help_is_one(command: Command, folder: Path) -> None:
    _, text, _ = command("explain", "--help")
    lines = text[text.index("    from permitflow_model") :].splitlines()
    (folder / "from_the_help.py").write_text(dedent("\n".join(takewhile(str.strip, lines))))
    code, stdout, _ = command("explain", "from_the_help:SYSTEM", "--parameters", "SMALL")
    assert (code, "stuck: After 3 steps nothing can move." in stdout) == (0, True)


def test_what_a_model_promises_is_examined(report: Report) -> None:
    code, told = report("explain", f"{OWN}:ENDLESS", "--parameters", f"{OWN}:FIVE")
    assert (code, told["verdict"]) == (0, "violated")
    assert told["sentence"].startswith("After 1 step the run goes round for ever")


def test_the_graph_of_a_model_of_ones_own_is_a_page(report: Report) -> None:
    code, told = report("explain", f"{OWN}:CALLS", "--parameters", "SIX", "--graph")
    assert (code, told["verdict"]) == (0, "stuck")


def test_the_graph_of_a_model_tells_what_does_not_hold(command: Command) -> None:
    code, stdout, stderr = command("explain", f"{OWN}:ENDLESS", "--parameters", f"{OWN}:FIVE", "--graph")
    assert (code, stderr) == (0, "")
    assert "violated: 35 states and" in stdout
    assert "none is stuck. Read does not hold.\n" in stdout


@pytest.mark.parametrize("has_browser", [True, False])
def test_a_page_is_opened_on_request(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, has_browser: bool
) -> None:
    opened: list[str] = []

    def open_page(address: str) -> bool:
        opened.append(address)
        return has_browser

    monkeypatch.setattr(webbrowser, "open", open_page)
    code, _, stderr = command("explain", *STUCK, "--open")
    assert (code, opened) == (0, [(folder / "permitflow-explain.html").as_uri()])
    assert ("no browser was found; open permitflow-explain.html in one" in stderr) is not has_browser


def test_a_page_on_standard_output_stands_there_alone(process: Command) -> None:
    code, stdout, stderr = process("explain", *STUCK, "-o", "-")
    assert (code, stdout[:15], stdout.rstrip()[-7:]) == (0, "<!DOCTYPE html>", "</html>")
    assert stderr.startswith("stuck: After 5 steps")


# Pages to play with.


def test_a_page_to_play_with_has_each_choice(report: Report, folder: Path) -> None:
    code, told = report("explain", "--play", "demand", "-o", "demand.html")
    assert (code, told) == (0, {"title": "The demand loop", "files": ["demand.html"]})
    assert len(embedded(folder / "demand.html")["settings"]) == 4 * 5 * 2
