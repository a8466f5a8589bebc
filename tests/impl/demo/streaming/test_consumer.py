"""The consumer's threads share a database that is there before they begin."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from permitflow.demo.streaming import consumer
from permitflow.demo.streaming.settings import PartSettings, PipelineSettings


def test_no_thread_is_the_first_to_open_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def journal(settings: PartSettings, channel: str) -> int:
        # Whoever only asks changes nothing.
        with closing(sqlite3.connect(f"file:{settings.ledger}?mode=ro", uri=True)) as database:
            ((kind,),) = database.execute("PRAGMA journal_mode")
        return int(kind == "wal")

    monkeypatch.setattr(consumer, "consume", journal)
    settings = PipelineSettings().part(address="127.0.0.1:1", tables=tmp_path, work_dir=tmp_path)
    consumer.main(settings)
    assert f'"rows": {len(settings.late_items)}' in capsys.readouterr().out
