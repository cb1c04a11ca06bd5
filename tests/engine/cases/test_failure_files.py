import json
import re
import zipfile
from collections import namedtuple
from pathlib import Path

import msgspec
import numpy as np
import pytest

from engine.cases import case_file
from engine.cases.case_file import MANIFEST, MOST_BYTES, CaseWriter, UnfitCase, read_case
from engine.cases.collection import LAST_SECONDS, write_case
from engine.cases.evidence import Evidence, Kind, Raw, text_of, tree_of, write_evidence
from engine.imports.found_run import CannotImport
from engine.imports.import_runs import import_runs
from engine.messages.events import (
    Failure,
    Metrics,
    Points,
    Progress,
    RunEnded,
    Trouble,
    WorkerFailed,
)
from engine.repair.report import Report
from engine.repair.run_check import check_run
from engine.runs import run_info
from engine.runs.run_state import RunState
from engine.runs.store.store_reader import RunReader
from engine.spec.run_spec import RunSpec
from engine.system import paths
from tests.support.recorded_runs import SPEC, RecordedRun, this_process_supervises

FAILURE = Failure(1, "cpu:1", 1, "", "Rank 1 failed: ValueError: no", "/a/b.py:3", "the log")
SECRET = "correct-horse-battery-staple"
FUNCTIONS = "def model(): ...\ndef datasets(): ...\n"
SECRETS = {
    "API_KEY": "hf_abcdefghijklmnopqrstuvwxyz",
    "DATABASE_URL": "postgres://me:s3cr3t-pass@host/db",
    "remote": "https://user:gh-token-0123456789@git.example/x.git",
    "header": "Authorization: Bearer abcdefgh12345678",
    "plain": SECRET,
}


def failed_run(spec: RunSpec = SPEC, *events, state: str = "failed") -> RecordedRun:
    run = RecordedRun(spec)
    run.begin()
    run.add(Progress(0, 5, 10.0, 0.1, 1.0), *events)
    run.add(WorkerFailed(1, "ValueError: no", "/a/b.py:3", "Traceback: no", lost_peer=False))
    run.add(RunEnded(state, FAILURE.message, FAILURE if state == "failed" else None))
    run.store.close()
    return run


def keep(run: RecordedRun, **changes) -> None:
    fields = {"kind": Kind.ERROR, "attempt": 1, "rank": 1, "error": "ValueError"} | changes
    batch = {"0": Raw("F32", (2,), b"\1" * 8)}
    write_evidence(run.folder, Evidence(**fields), batch, {"w": Raw("F32", (1,), b"\0" * 4)})


def test_a_case_is_opened_as_a_run_that_is_over_with_all_that_was_kept():
    run = RecordedRun()
    run.begin()
    now = 1.7e9
    long_ago = Metrics(now, now, [Points("train/loss", [1], [9.0], [now - 2 * LAST_SECONDS])])
    last = Metrics(now, now, [Points("train/loss", [2, 3], [0.5, float("nan")], [now, now + 1])])
    run.add(long_ago, last, Progress(0, 5, 10.0, 0.1, 1.0))
    run.write_log(1, "rank one says this")
    (run.folder / "logs" / "stacks-rank0.txt").write_text("Thread 0x1 (most recent call first)")
    (run.folder / "facts").mkdir(exist_ok=True)
    (run.folder / "facts" / "attempt-1.json").write_text('{"attempt": 1}')
    run.add(RunEnded("failed", FAILURE.message, FAILURE))
    run.store.close()
    keep(run, message="no", samples=("sample 7",))
    file = write_case(run.folder)
    assert file.stat().st_size < MOST_BYTES
    assert file.stat().st_mode & 0o777 == 0o600
    done = import_runs([file])
    [new] = done.run_ids
    info = run_info.get_run(new)
    assert (info.state, info.reason) == (RunState.FAILED, FAILURE.message)
    assert not info.can_continue
    assert info.spec.settings["batch_size"] == SPEC.batch_size
    assert info.status.step == 5
    with RunReader(info.folder) as reader:
        found = reader.points_after("train/loss", 0)
        ended = reader.newest_event(lambda event: isinstance(event, RunEnded)).event
    assert found.step.tolist() == [2, 3]
    assert ended.failure == FAILURE
    assert (info.folder / "recipe.py").read_bytes() == (run.folder / "recipe.py").read_bytes()
    assert "rank one" in (info.folder / "logs" / "rank1.log").read_text()
    assert (info.folder / "logs" / "stacks-rank0.txt").exists()
    assert (info.folder / "facts" / "attempt-1.json").exists()
    step = json.loads((info.folder / "failure" / "step.json").read_text())
    assert (step["error"], step["samples"], step["seed"]) == ("ValueError", ["sample 7"], 0)
    again = write_case(info.folder)  # what was opened is no run of this machine, and stays readable
    assert again is None or read_case(again)
    report = Report(repair=False)
    check_run(new, report)
    assert not report.findings


def test_healthy_runs_leave_no_case_and_unhealthy_ones_do():
    hang = Trouble("hang", "No step was done.", True)
    assert write_case(failed_run(state="finished").folder) is None
    assert write_case(failed_run(SPEC, hang, state="stopped").folder)
    assert not write_case(
        failed_run(SPEC, hang, Trouble("hang", "", False), state="stopped").folder
    )
    nan = Metrics(1e9, 1e9, [Points("train/loss", [4], [float("nan")])])
    assert write_case(failed_run(SPEC, nan, state="finished").folder)
    running = RecordedRun()
    running.add(this_process_supervises())
    running.store.close()
    assert write_case(running.folder) is None


@pytest.mark.parametrize("name", SECRETS)
def test_no_secret_is_in_a_case(name, tmp_path):
    text = f"{name}={SECRETS[name]}"
    value = SECRETS[name].rpartition("//")[2].rpartition("@")[0] or SECRETS[name]
    hidden = value.rpartition(":")[2].rpartition(" ")[2]
    recipe = tmp_path / "mine.py"
    source = (
        f'"""{text}"""\nTOKEN = \\\n  "{SECRETS[name]}"\nkey = api_keys = []\n{FUNCTIONS}'
        f'import os; os.environ["MY_TOKEN"] = "{SECRETS[name]}"\n'
    )
    recipe.write_text(source)
    spec = RunSpec(recipe=str(recipe), strategy="torch/single", devices=("cpu:0",), name=text[:90])
    run = failed_run(spec, Trouble("hang", text, True))
    for rank in range(2):
        run.write_log(rank, f"connects with {text}\n'{name}': '{SECRETS[name]}'")
    (run.folder / "facts").mkdir(exist_ok=True)
    facts = json.dumps({"remote": SECRETS[name], "t": text, "password": f"pass{hidden}"})
    (run.folder / "facts" / "attempt-1.json").write_text(facts)
    (run.folder / "facts" / "attempt-1.diff").write_text(f"+ {text}\n")
    keep(run, message=text, notes=(text,))
    file = write_case(run.folder, [SECRET])
    with zipfile.ZipFile(file) as content:
        for each in content.namelist():
            assert hidden.encode() not in content.read(each), each
        code = content.read("repro/code/mine.py").decode()
    compile(code, "mine.py", "exec")
    assert code.count("\n") == source.count("\n")


def test_what_has_no_room_is_left_out_and_named(monkeypatch):
    run = failed_run()
    keep(run)
    big = bytes(__import__("random").Random(0).randbytes(9_900_000))
    (run.folder / "failure" / "rank1.weights.safetensors").write_bytes(big)
    for rank in range(12):
        run.write_log(rank, "x" * 300_000)
    manifest, files = read_case(write_case(run.folder))
    assert (run.folder / case_file.NAME).stat().st_size < MOST_BYTES
    assert "repro/weights.safetensors" not in files
    assert "repro/batch.safetensors" in files
    assert any("weights" in text for text in manifest.left_out)


def crafted(tmp_path: Path, change) -> Path:
    """Write a case that was changed by someone who also corrects its manifest."""
    with zipfile.ZipFile(write_case(failed_run().folder)) as content:
        files = {name: content.read(name) for name in content.namelist()}
    writer = CaseWriter()
    manifest = json.loads(files.pop(MANIFEST))
    files = change(files) or files
    for name, body in files.items():
        writer._zip.writestr(name, body)
        manifest["files"][name] = {
            "size": len(body),
            "sha256": case_file.hashlib.sha256(body).hexdigest(),
        }
    kept = {name: manifest["files"][name] for name in files}
    writer._zip.writestr(MANIFEST, json.dumps(manifest | {"files": kept}))
    writer._zip.close()
    file = tmp_path / "crafted.tdcase"
    file.write_bytes(writer._buffer.getvalue())
    return file


def with_end(**changes) -> bytes:
    ended = {"type": "run_ended", "state": "failed", "reason": "", "failure": None}
    return msgspec.msgpack.encode([[1.7e9, ended | changes]])


def nested(depth: int) -> bytes:
    begin = msgspec.msgpack.encode({"type": "notice", "text": "", "x": 1})[:-1]
    return b"\x91\x92\x01" + begin + b"\x91" * depth + b"\x90"


@pytest.mark.parametrize(
    "change",
    [
        lambda files: files | {"repro/../../evil.py": b""},
        lambda files: files | {"/etc/evil": b""},
        lambda files: files | {"run/modules/C:evil.py": b""},
        lambda files: files | {"run/logs/x.txt": b"0" * 50_000_000},
        lambda files: files | {"run/events.msgpack": b"\x90"},
        lambda files: files | {"run/events.msgpack": nested(200_000)},
        lambda files: files | {"run/events.msgpack": with_end(state="bogus")},
        lambda files: files | {"run/events.msgpack": with_end(state="running")},
        lambda files: files | {"run/events.msgpack": with_end(reason="x" * 5_000_000)},
        lambda files: files | {"run/points.msgpack": b"\x91\x94\xa1a\xc4\1a\xc4\1a\xc4\1a"},
        lambda files: files | {"run/spec.json": b'{"recipe": 3}'},
        lambda files: files | {f"run/logs/{number}": b"" for number in range(3000)},
    ],
)
def test_a_crafted_case_is_refused_in_one_sentence_and_leaves_nothing(change, tmp_path):
    file = crafted(tmp_path, change)
    before = sorted(paths.home().rglob("*"))
    with pytest.raises(CannotImport) as refused:
        import_runs([file])
    assert "\n" not in str(refused.value)
    assert sorted(paths.home().rglob("*")) == before


def test_damage_is_found_and_foreign_files_are_refused(tmp_path):
    body = write_case(failed_run().folder).read_bytes()
    file = tmp_path / "x.tdcase"
    for damaged in (b"", b"PK\3\4", body[:-30], body[: len(body) // 2], b"\0" * 21_000_000):
        file.write_bytes(damaged)
        with pytest.raises(CannotImport):
            import_runs([file])
    names = body.replace(b"failure.txt", b"\xff\xfeilure.txt")
    flags = re.compile(b"(PK\3\4..|PK\1\2....)(.).", re.DOTALL)  # the names are UTF-8
    file.write_bytes(flags.sub(lambda found: found[1] + found[2] + b"\x08", names))
    with pytest.raises(CannotImport):
        import_runs([file])
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as foreign:
        foreign.writestr("manifest.json", "{}")
    with pytest.raises(UnfitCase):
        read_case(file)
    place = body.index(b"failure.txt") + 40
    file.write_bytes(body[:place] + bytes([body[place] ^ 255]) + body[place + 1 :])
    with pytest.raises(UnfitCase):
        read_case(file)
    with zipfile.ZipFile(file, "w") as foreign:
        foreign.writestr("a.txt", "a")
    with pytest.raises(UnfitCase):
        read_case(file)
    file.unlink()
    file.symlink_to(tmp_path)
    with pytest.raises(CannotImport):
        import_runs([file])


def test_opening_executes_nothing(tmp_path):
    mark = tmp_path / "executed"
    code = f"open({str(mark)!r}, 'w')\n".encode()
    file = crafted(
        tmp_path,
        lambda files: (
            files | {"run/recipe.py": code, "repro/repro.py": code, "repro/code/digits.py": code}
        ),
    )
    [new] = import_runs([file]).run_ids
    run_info.get_run(new)
    assert not mark.exists()
    assert (paths.run_folder(new) / "failure" / "repro.py").read_bytes() == code


def test_a_tree_keeps_the_nesting_of_a_batch():
    batch = ({"ids": 1, 3: [b"\xff", None]}, object())
    tree = tree_of(batch, lambda leaf: None)
    assert tree["tuple"][0]["dict"][1] == [3, {"list": [{"bytes": "\xff"}, {"value": None}]}]
    assert tree["tuple"][1] == {"left_out": "object"}


def test_odd_values_and_texts_of_exceptions_are_kept_as_json_takes_them():
    class Odd(str):
        pass

    class Mute(Exception):
        def __str__(self):
            raise ZeroDivisionError

    row = namedtuple("Row", "text n")(Odd("a"), np.float64(0.5))
    tree = tree_of(
        [row, float("nan"), 2**70, {Odd("k"): True}, {(1, 2): 3}, "\ud800"], lambda _: None
    )
    tree = json.loads(msgspec.json.encode(tree))
    assert tree["list"] == [
        {"tuple": [{"value": "a"}, {"value": 0.5}], "fields": ["text", "n"]},
        {"float": "nan"},
        {"int": str(2**70)},
        {"dict": [["k", {"value": True}]]},
        {"left_out": "dict"},
        {"left_out": "str"},
    ]
    texts = [text_of(error) for error in (Mute(), KeyError("k"), ValueError(Odd("\ud800")))]
    assert texts == ["", "'k'", "\\ud800"]
    assert {type(text) for text in texts} == {str}
