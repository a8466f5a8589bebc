"""What no command can use is named with its rule: exit code 2, one error, and nothing is printed or written."""

import shlex
import sys
from pathlib import Path

import pytest
from typer import BadParameter
from typer.core import TyperOption

from tests.permitflow_tools.cli.conftest import Command
from tools.cli_reference import commands

EXAMPLES = Path(__file__).resolve().parents[3] / "docs/examples"
ORDERS, GRID, LOOP = "orders.toml", "grid.toml", "loop.toml"
GATE = "check gate --inputs 2 --exclusive 0 --floating 1"
QUEUE = "permitflow_testing.examples.queues:QueueChannel"
OWN = "tests.support.own_model"
EIGHT = "--row-permits 8 --permit-batch 3"
STUCK = f"{EIGHT} --max-chunk-cost 7"
VARIED = f"{ORDERS} --sweep permit_batch=256,512"
KEEPING = "serve --stream orders --retention replay"

# By the command line; of a complaint in several parts, all are said.
REFUSED = {
    "check --row-permits 0 --permit-batch 1": "'--row-permits': must be a whole number of at least 1, not '0'",
    "check --row-permits many --permit-batch 1": "'--row-permits': must be a whole number of at least 1, not 'many'",
    f"check {EIGHT} --chunk-rows '1;3'": "'--chunk-rows': must be whole numbers separated by commas",
    "check --permit-batch 8": "--row-permits is missing: your own numbers need at least these",
    f"check {EIGHT} --chunk-rows 0": "'--chunk-rows': must name a size above 0: rows have to flow, not '0'",
    "check --row-permits 1": "--permit-batch: in the published protocol",
    "check --engine tla": "must be explorer, tlc or both, not 'tla'",
    "check nothing.toml": "nothing.toml: cannot be read",
    "check --row-permits 8 --permit-batch 8": "--permit-batch: in the published protocol a chunk costs at most row "
    "permits less permit batch",
    f"check {EIGHT} --engine tlc": "--engine belongs to the models of the specification",
    "check --model one-above-stick": "there is no model 'one-above-stick'; did you mean one-above-stuck",
    f"check {ORDERS} --row-permits 8": "--row-permits belongs to numbers of your own",
    f"check {ORDERS} --sweep rtt=1ms": "rtt changes no verdict; vary row_permits, permit_batch, max_chunk_cost, "
    "chunk_rows",
    "check --sweep permit_batch=1": "--sweep belongs to a file whose numbers vary: name one",
    f"check {VARIED} --sweep permit_batch=1024": "--sweep: permit_batch is varied twice; name all of its values in one "
    "--sweep",
    "check --explore": "--explore belongs to a file whose numbers vary: name one",
    f"check {GRID} --sweep permit_batch=1,2 --plot map.svg": "varied are permit_batch",
    f"check {GRID} --sweep row_permits=4..40:+1 --sweep permit_batch=1 --sweep max_chunk_cost=1 --plot m.svg": "37 "
    "panels, one for each row_permits, are too many",
    f"check {GRID} --sweep permit_batch=1..999:+1 --sweep max_chunk_cost=1,2,3": "with --spark there may be more",
    f"check {GRID} --sweep permit_batch=1 --spark nonsense://x": "must be a master or a remote session",
    "check gate --inputs 2 --exclusive 0": "--floating is missing",
    f"{GATE} --flush-idle": "--flush-idle belongs to numbers of your own",
    "check --inputs 2": "--inputs belongs to a gate",
    "check graph": "graph needs a file: `permitflow check graph loop.toml`",
    f"check graph {LOOP} --row-permits 8": "--row-permits belongs to numbers of your own: leave it away, or what",
    "check graph nowhere.toml": "nowhere.toml: cannot be read: No such file",
    f"check graph {ORDERS}": "describes a channel: `permitflow check ",
    f"check {LOOP}": "describes a graph of stages: `permitflow check graph ",
    f"check {LOOP} {ORDERS}": "one file at a time",
    f"explain {LOOP} --row-permits 8": "--row-permits belongs to numbers of your own",
    "explain tests.support.exiting_module:SYSTEM": "exiting_module:SYSTEM cannot be imported: SystemExit: 0",
    "conform tests.support.exiting_module:Queue": "exiting_module:Queue cannot be imported: SystemExit: 0",
    f"check {OWN}:CALLS --sweep permit_batch=1": "--sweep belongs to a file whose numbers vary",
    f"check {OWN}:CALLS --parameters SIX --max-states 3": "--max-states: more than 3 states can be reached, in which "
    "sent has 3 values; choose smaller parameters",
    f"check {OWN}:CALLS --parameters Service": "--parameters Service is a class: make a value of it in",
    "check --parameters SIX": "--parameters belongs to a model of your own: `permitflow check my_protocol:SYSTEM ...`",
    "conform queues": "MODULE:ADAPTER must be as in my_channel:MyAdapter, not 'queues'",
    "conform creditq.py:Good": "not 'creditq.py:Good': creditq:Good, without .py",
    "conform jsom:Queue": "jsom:Queue cannot be imported: ModuleNotFoundError: No module named 'jsom'",
    "conform json:Queue": "module json has no Queue",
    f"conform {QUEUE.replace('Queue', 'Queu')}": "queues has no QueuChannel; did you mean QueueChannel?",
    "conform json:JSONDecoder": "json:JSONDecoder is not a class of permitflow_testing.ChannelAdapter",
    f"conform {QUEUE} --limit-seconds 3": "--limit-seconds needs --command",
    f"conform {QUEUE} --pair": "is a channel as a whole, a permitflow_testing.ChannelAdapter; leave --pair away",
    "conform json:__name__ --pair": "json:__name__ makes nothing; --pair needs a callable",
    f"conform {QUEUE} --rule windows": "--rule: there is no rule 'windows'; did you mean window",
    f"conform {QUEUE} --rule cost": "did you mean cost-is-rows or empty-costs-one or oversize-costs-max-chunk-cost?",
    f"conform {QUEUE} --rule xyz": "there is no rule 'xyz'; there are window, whole-window, … stop-ends-sends",
    f"conform {QUEUE} --flow permit": "--flow: there is no flow 'permit'; did you mean permits?",
    f"conform {QUEUE} --flow demand --rule xyz": "there is no rule 'xyz'; there are window, ",
    "serve --stream a:2 --max-memory 900MiB": "--max-memory: 900 MiB leaves no room for a stream beside the channels "
    "and handshakes: give at least 916MiB, or lower --max-handshakes",
    "serve --stream a:2 --max-memory 2GiB --processes 2": "--max-memory: 2 GiB leaves no room for a stream beside "
    "the channels and handshakes: give at least 2632MiB",
    "serve --stream a --max-memory-per-peer 30MiB": "--max-memory-per-peer: 30 MiB leaves no room for a stream: give "
    "at least 36MiB",
    "serve --stream a --target-latency 0s": "'--target-latency': must be a number of seconds, above 0",
    "serve --stream a --target-latency 1s --flow demand": "--target-latency: only the window of permits adapts",
    "serve --stream a --target-latency 1s --trace t": "--target-latency: not with --trace",
    f"{KEEPING} --parameter speed=3": "--parameter: speed must be a parameter of flow permits",
    f"{KEEPING} --target-latency 1s": "--target-latency: not with --retention replay",
    "serve --stream a --address 0.0.0.0:0": "--address: 0.0.0.0:0 must be on the loopback, as 127.0.0.1, "
    "because other hosts reach it and there is no TLS",
    "serve --stream a --ui 0.0.0.0:0": "--ui: 0.0.0.0:0 is not on the loopback, so it needs --tls-cert",
    "serve --stream a --tls-cert /nowhere": "--tls-cert: /nowhere must be a file that can be read (No such file or "
    "directory)",
    "serve --stream a --tls-key /nowhere": "--tls-key: /nowhere needs the certificate beside it",
    "serve --stream a --tls-client-ca /nowhere": "--tls-client-ca: needs --tls-cert",
    "serve --stream a --rights /nowhere": "--rights: /nowhere must be a file of text that can be read",
    "serve --stream a --rights x --token-file y": "--token-file: cannot be given beside --rights",
    "get x/0 --tls-ca /nowhere": "--tls-ca: /nowhere must be a file",
    "health --tls-key /nowhere": "--tls-key: /nowhere needs the certificate beside it",
    "demo --scale 0": "--scale' must be above 0 and at most 100: 0.0",
    "demo --scale 101": "--scale' must be above 0 and at most 100: 101.0",
    "demo --scale small": "'--scale': must be a number, not 'small'",
    "demo --kills 3": "--kills: needs --streaming",
    "demo --streaming --kills 1001": "--kills' must be from 0 to 1000: 1001",
    "demo wordcount --stall-seconds 0": "--stall-seconds",
    "demo wordcount --flow-seconds 0": "--flow-seconds' must be above 0, and finite: 0.0",
    "demo wordcount -o /nowhere/page.html": "there is no folder /nowhere",
    "demo wordcount --keep /proc/nowhere": "cannot be made",
    "demo jobs --overload-seconds 0": "--overload-seconds' must be above 0, and finite: 0.0",
    "demo jobs --workers 17": "--workers' must be 1 to 16: 17",
    "demo jobs --lose 1": "--lose' must be a share, from 0 to below 1: 1.0",
    "demo jobs --page nowhere": "--page' must be host:port",
    "demo jobs --page tcp://127.0.0.1:1": "--page' must be host:port, without tcp://",
    "demo jobs -o /nowhere/page.html": "there is no folder /nowhere",
    "explain": "nothing to explain: name trace files, a channel in TOML or a model of your own, or give numbers",
    f"explain {OWN}:CALLS": "AttributeError: 'NoneType' object has no attribute 'requests'; name the parameters with "
    "--parameters",
    f"explain {OWN}:CALS": "has no CALS; did you mean CALLS?",
    f"explain {OWN}:SIX": "must be a permitflow_model.kernel.system.System, not Service(calls=6",
    f"explain {OWN}:CALLS --parameters SEVEN": "has no SEVEN",
    f"explain {OWN}:CALLS --parameters SIX --max-states 3": "--max-states: more than 3 states can be reached",
    f"explain {OWN}:CALLS --channel orders": "--channel belongs to a trace",
    f"explain {OWN}:CALLS {ORDERS}": "is shown alone: leave orders.toml away",
    "explain nothing_here:SYSTEM": "nothing_here:SYSTEM cannot be imported: ModuleNotFoundError",
    "explain model.py:SYSTEM": "must name a module, not its file: write model:SYSTEM",
    "explain run.jsonl --parameters SIX": "--parameters belongs to a model of your own: name it, as in",
    "explain run.jsonl --graph": "--graph belongs to numbers of your own, a file with them, or a model",
    f"explain {STUCK} --channel orders": "--channel belongs to a trace",
    "explain nothing.jsonl": "nothing.jsonl",
    "explain nothing.jsonl --permit-batch 3": "--permit-batch belongs to numbers of your own",
    "explain --graph --row-permits 64 --permit-batch 8": "--graph: more than 500 states can be reached",
    "explain --row-permits 9000 --permit-batch 8 --chunk-rows 1": "--chunk-rows: a window of 9,000 row permits takes",
    f"explain {STUCK} -o missing/page.html": "cannot write missing/page.html: No such file or directory",
    f"explain {STUCK} -o page.svg": "--output writes a web page, not page.svg: name a file .html",
    f"explain {STUCK} --svg x.png": "--svg writes an SVG drawing, not x.png: name a file .svg",
    f"explain {STUCK} --svg x.svg --open": "--open shows a page: name a file with --output",
    f"explain {STUCK} -o - --open": "--open shows a page",
    f"explain {STUCK} -o .": "cannot write .: it is a folder; name a file in it",
    "serve --stream s --cluster a:1,b:1": "127.0.0.1:50051 is none of these: say with --advertise",
    "serve --stream s --advertise a:1": "--advertise: needs --cluster",
    "top a:1,a:1": "must not name a:1 twice",
    "health a:1,b:2": "--address: a:1,b:2 must be a single host:port here",
    "health localhost:1 --timeout soon": "a duration",
    "health tcp://localhost:1": "an exchange answers health questions over gRPC only",
    "prove --theorem treshold": "there is no theorem 'treshold'; did you mean threshold",
    "prove --theorem 2014-right --solver yices": "'--solver': must be z3, cvc5 or both, not 'yices'",
    "prove --theorem 2014-right --jobs 9999999999": "must be at most 1,000, not 9,999,999,999",
    "prove --theorem 2014-right --export /dev/null/questions": "choose a directory that can be written to",
    "serve": "Missing option '--stream'",
    "serve --stream orders:99999999999": "may have at most 100,000 channels",
    "serve --stream orders:0": "must be NAME or NAME:N with at least one channel, as in orders:4, not 'orders:0'",
    "serve --stream 'or\nders'": "must be a name that can be shown on one line",
    "serve --stream a --stream a:2": "--stream: 'a' is given twice",
    "serve --stream 'or ders:2'": "must be a name without blanks, not 'or ders:2'",
    "serve --stream a --address localhost:99999": "a port of 0 to 65535",
    "serve --stream a --address http://127.0.0.1:1": "tcp://host:port or udp://host:port, without http://",
    "serve --stream a --retention always": "must be once or replay, not 'always'",
    "serve --stream a --compression gzip": "must be auto, none, lz4 or zstd, not 'gzip'",
    "serve --stream a --same-host yes": "must be auto, never or require, not 'yes'",
    "serve --stream a --row-permits 1": "'--row-permits': must be a whole number of at least 2, not '1'",
    "serve --stream a --flow nonsense": "--flow: there is no flow 'nonsense', but demand, gate, permits, squelch",
    "serve --stream a --flow gate --parameter exclusive": "'exclusive' must be NAME=NUMBER",
    "serve --stream a --flow gate --parameter exclusiv=1": "a parameter of flow gate, which has inputs,",
    "serve --stream a --flow demand --parameter size=9999999999999999": "--parameter: 'size=9999999999999999' must be "
    "a number of at most 1,000,000,000,000,000",
    "serve --stream a --flow gate --parameter inputs=2 --parameter inputs=2": "'inputs=2': it is given twice",
    "serve --stream a --parameter row_permits=2": "use --row-permits",
    "serve --stream a --flow squelch --row-permits 8": "flow squelch, which has ",
    "serve --stream a --trace /nowhere/run.jsonl": "--trace: cannot write /nowhere/run.jsonl",
    "serve --stream a --drain-seconds -1": "must be a number from 0 to 1,000,000,000, not '-1'",
    **{
        f"serve --stream a {option}": f"{option.split()[0]}: rows are gone once they were read; to keep them, add "
        "--retention replay"
        for option in (
            *(
                "--kept-rows 8",
                "--consumer etl",
                "--store .",
                "--store postgresql://h/d",
                "--staging-rows 5",
                "--staging-timeout-seconds 5",
            ),
        )
    },
    f"{KEEPING} --consumer a --consumer a": "--consumer: 'a' is given twice",
    f"{KEEPING} --consumer ''": "--consumer: a name must not be empty",
    f"{KEEPING} --store {__file__}": "--store: ",
    f"{KEEPING} --store ''": "must be a folder, not empty",
    f"{KEEPING} --store postgresq://me:secret@h/db": "'--store': must be a folder, or begin with postgresql://, not "
    "with postgresq://",
    f"{KEEPING} --store postgresql://me:secret@h/db": "--store: postgresql://…@h/db cannot be used as a "
    "store: others can see a password in an address",
    f"{KEEPING} --store postgresql:///db?host=/nowhere": "--store: postgresql:///db?schema=permitflow cannot be used",
    f"{KEEPING} --store orders.store --standby": "--standby: needs --store postgresql://",
    f"{KEEPING} --standby": "--standby: needs --store postgresql://",
    "serve --stream a --target-latency 0.5": "'--target-latency': must be a duration with its unit, as in \"40ms\"",
    f"simulate {OWN}:CALLS": "a model of your own has no rates: permitflow check and permitflow explain take it",
    "simulate": "--row-permits is missing: name a file, or give at least --row-permits and --chunk-rows",
    "simulate --row-permits 8 --chunk-rows 1": "--rtt must be above 0 where no rate is limited: else nothing",
    "simulate --row-permits 8 --permit-batch 8 --chunk-rows 1": "--permit-batch must be below row_permits = 8",
    "simulate --row-permits 8 --chunk-rows 0": "'--chunk-rows': must name a size above 0: rows have to flow, not '0'",
    f"simulate {ORDERS} --rtt 40": "'--rtt': must be a duration with its unit, as in \"40ms\"",
    f"simulate {ORDERS} --consumer-rate 0": "'--consumer-rate': must be rows a second",
    f"simulate {ORDERS} --full 0": "'--full': must be a share above 0 and up to 1",
    f"simulate {ORDERS} --sweep rows=1": "'--sweep': 'rows' cannot be varied",
    f"simulate {ORDERS} --full 99% --sweep rtt=1ms": "--full is about the smallest window of a single run",
    f"simulate {ORDERS} --plot x.svg": "--plot needs something to vary",
    f"simulate {ORDERS} --sweep rtt=1ms --plot x.gif": "--plot: the name must end in .html, .svg, .png, .pdf",
    f"simulate {ORDERS} --sweep rtt=1ms --csv no/x.csv": "--csv: there is no folder no",
    "simulate 8": "numbers are options, as in --row-permits 8",
    "check 2048 256": "numbers are options, as in --row-permits 2048",
    "explain 8 3": "numbers are options, as in --row-permits 8",
    "get orders/0 . --format csv": "FILE: . is a folder; name a file in it",
    "get orders/0 no/x.csv": "FILE: there is no folder no",
    f"put {GRID}": "grid.toml is a file: name a channel before it",
    "simulate no.toml": "no.toml: cannot be read: No such file or directory",
    f"simulate {ORDERS} --sweep row_permits=1..900:+1 --sweep permit_batch=1..90:+1": "81,000 combinations are too "
    "many",
    "trace validate no.jsonl": "no.jsonl … No such file",
    f"trace validate {ORDERS}": "this is TOML, the description of a channel: check, simulate and explain read it",
    f"trace validate {__file__}": "line 1: is not a line of a permitflow trace",
    "help explian": "there is no command 'explian'",
    f"check {GRID} --sweep permit_batch=10..1": "must not end at 1, which is below 10: write 1..10",
    f"simulate {ORDERS} --seed x": "must be a whole number of at least 0, not 'x'",
    f"trace {GRID}": "grid.toml is a file: permitflow trace validate grid.toml reads it",
    "trace validate /dev/null": "the trace holds no channel",
    "serve --stream a --permit-batch 8 --row-permits 8": "--permit-batch: 8 must be at least 1 and below",
    "top a:1 --address b:1": "--address: a:1 is an address as well; leave one of them away",
    "put a/0 nothere.csv": "nothere.csv: cannot be read: No such file or directory",
    "put a/0 orders": "its name does not tell its format",
    "put a/0 orders.csv --schema n": "--schema: n must be NAME:TYPE",
    "put a/0 orders.csv --format xml": "must be arrow, parquet, csv or jsonl, not 'xml'",
    "get a/0 out": "its name does not tell its format",
    "get a/0 --json": "rows go to standard output: name a file",
    "conform m:A --command cat": "--command takes the place of MODULE:ADAPTER",
    "conform m:A --end sender": "--end needs --command",
    "conform": "MODULE:ADAPTER or --command is missing",
    "conform --command cat --dial tcp://127.0.0.1:1 --accept tcp": "--dial and --accept exclude each other",
    "conform --command no-such-program": "must begin with a program that is here, not 'no-such-program'",
    "conform --command cat --end both": "--end: there is no end 'both'",
    "explain --play demnad": "--play: there is no page 'demnad'; did you mean demand?",
    "explain --play demand --graph": "--graph: --play has its own numbers",
    "explain --play demand run.jsonl": "run.jsonl and --play are two pages",
    **{
        f"serve --stream a --processes 2 {option}": "--processes: "
        for option in (
            *("--retention replay", "--trace run.jsonl", "--ui 127.0.0.1:0"),
            "--address 127.0.0.1:0 --address tcp://127.0.0.1:0",
        )
    },
}

NUMBERS = {"N", "ROW", "ROWS", "ROWS,...", "SECONDS", "DURATION", "SIZE", "SHARE", "FACTOR"}
UNITS = {"DURATION": "s", "SIZE": "B"}
# Times and a scale of demos are looked at by the demos themselves, see above.
ZEROS = {
    *("check --exclusive", "check --floating"),
    *(
        "demo --kills",
        "demo --scale",
        "demo --seed",
        "demo jobs --kills",
        "demo jobs --lose",
        "demo jobs --overload-seconds",
    ),
    *("demo jobs --seed", "demo wordcount --flow-seconds", "demo wordcount --stall-seconds"),
    *("get --from-row", "put --rows", "serve --drain-seconds", "serve --resume-seconds"),
    *("simulate --rtt", "simulate --seed", "trace query --source", "trace query --staging-rows"),
    "trace validate --jobs",
}


def accepting(number: str) -> set[str]:
    """The options of all commands that may have this value, depending on what else is given."""
    accepted = set()
    for name, command in commands():
        for each in command.params:
            if each.metavar not in NUMBERS or not isinstance(each, TyperOption):
                continue
            option = each.opts[0]
            try:
                command.make_context(name, [option, f"{number}{UNITS.get(each.metavar, '')}"])
            except BadParameter as error:
                if "Missing" not in (complaint := error.format_message()):  # an argument
                    assert complaint.startswith(f"Invalid value for '{option}': "), f"{name}: {complaint}"
                    continue
            accepted.add(f"{name.removeprefix('permitflow ')} {option}")
    return accepted


@pytest.mark.parametrize("number", ["-1", "nan", "9" * 400])
def test_an_option_whose_number_is_impossible_is_named(number: str) -> None:
    assert accepting(number) == set()


def test_an_option_that_must_be_above_zero_is_named() -> None:
    assert accepting("0") == ZEROS


@pytest.mark.parametrize("line", REFUSED)
def test_what_cannot_be_used_is_named_with_its_rule(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    for name in ORDERS, GRID, LOOP:
        (tmp_path / name).symlink_to(next(EXAMPLES.rglob(name)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # where conform looks for modules
    code, stdout, stderr = command(*shlex.split(line))
    assert (code, stdout) == (2, "")
    said = " ".join(stderr.split())
    assert [part for part in REFUSED[line].split(" … ") if part.strip() not in said] == []
    assert "Traceback" not in stderr
    assert {path.name for path in tmp_path.iterdir()} == {ORDERS, GRID, LOOP}
