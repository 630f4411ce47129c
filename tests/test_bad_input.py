"""Whatever lies in an agent's folder, and wherever the journal has to live: a sentence, never a traceback or a loss."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from journals import LONGEST, Home, contents, hits, tree
from logs import SESSION, assistant, lines, text, tool_result, tool_use, user

NOBODY = 65534
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


def talk(bird: str, **fields: Any) -> list[dict[str, Any]]:
    return [user(f"u-{bird}", f"Tell me of the {bird}", **fields), assistant(f"a-{bird}", text(f"A {bird}"), **fields)]


@pytest.fixture
def heron(home: Home) -> Home:
    """One good session, not indexed yet: whatever is beside it, it must be found."""
    home.claude(*talk("heron"))
    return home


def assert_heron_found(home: Home) -> None:
    assert home.search("heron in:user").total.messages == 1


def bad_lines(home: Home) -> list[str]:
    """The reasons that `aj doctor` gives."""
    with home.journal() as journal:
        return [reason for agent in journal.doctor().agents for _, reason in agent.problems]


def refused(ended: subprocess.CompletedProcess[str], *words: str) -> None:
    """A sentence on stderr, exit code 2, nothing on stdout."""
    assert (ended.returncode, ended.stdout) == (2, "")
    said = " ".join(ended.stderr.split())
    assert said.startswith("aj: ")
    assert "Traceback" not in said
    assert "unexpected" not in said
    assert [word for word in words if word not in said] == [], said


# --- nothing there ---------------------------------------------------------------------------------------


def test_empty_home_finds_nothing_and_says_so(home: Home) -> None:
    ended = home.aj("search", "heron")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert home.aj("reindex").returncode == 0
    assert home.aj("doctor").returncode == 0
    assert home.aj("sessions").returncode == 1


def test_home_that_does_not_exist_finds_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path / "nowhere", {"AJ_HOME": str(tmp_path / "journal")})
    assert home.aj("search", "heron").returncode == 1


# --- odd things among the files --------------------------------------------------------------------------


def test_folder_named_like_a_session_is_passed_over(heron: Home) -> None:
    heron.claude_path("a-folder").mkdir()
    (heron.path / ".copilot" / "session-state" / "x" / "events.jsonl").mkdir(parents=True)
    report = heron.reindex()
    assert sum(len(agent.passed) for agent in report.agents) == 2
    assert_heron_found(heron)


def test_broken_link_is_passed_over(heron: Home) -> None:
    heron.claude_path("broken").symlink_to(heron.path / "nowhere")
    heron.claude_path("itself").symlink_to(heron.claude_path("itself"))
    report = heron.reindex()
    assert [Path(path).stem for agent in report.agents for path, _ in agent.passed] == ["broken", "itself"]
    assert_heron_found(heron)


def test_loop_of_folders_ends(heron: Home) -> None:
    project = heron.claude_path().parent
    (project / "loop").symlink_to(heron.path / ".claude")
    (project / SESSION).mkdir()
    (project / SESSION / "subagents").symlink_to(project)
    (heron.path / ".copilot").symlink_to(heron.path)
    (heron.path / "session-state").symlink_to(heron.path)
    assert heron.reindex().sources_failed == 0
    assert_heron_found(heron)


def test_pipe_and_socket_are_not_opened(heron: Home) -> None:
    os.mkfifo(heron.claude_path("pipe"))
    heron.reindex()
    assert_heron_found(heron)


def test_nul_bytes_and_truncated_json_cost_only_their_lines(home: Home) -> None:
    path = home.claude(*talk("heron"))
    good = path.read_bytes()
    path.write_bytes(
        b"\0" * 5000 + b"\n" + good + b'{"type": "user", "mess\n' + lines(talk("stork")) + b"\xff\xfe\n{}\n[]\n"
    )
    report = home.reindex()
    assert report.bad_lines == 4
    assert len(bad_lines(home)) == 4
    assert home.search("tell in:user").total.messages == 2


def test_file_of_garbage_is_no_session_and_is_named(heron: Home) -> None:
    heron.claude_path("garbage").write_bytes(bytes(range(256)) * 1000)
    report = heron.reindex()
    assert report.bad_lines > 0
    assert bad_lines(heron)
    assert_heron_found(heron)


def test_duplicated_uuids_are_counted_and_change_nothing_later(home: Home) -> None:
    home.claude(user("same", "first words"), user("same", "second words"), user("other", "third words"))
    report = home.reindex()
    before = home.stored()
    (rows,) = before.values()
    assert [m.text for _, _, m, _ in rows] == ["first words", "third words"]
    assert [agent.skipped["duplicate uuid"] for agent in report.agents if agent.skipped] == [1]
    home.reindex(full=True)
    assert home.stored() == before


def test_circle_of_parents_is_no_circle_for_us(home: Home) -> None:
    home.claude(
        user("u1", "heron one", parent="u3"),
        user("u2", "heron two", parent="u1"),
        user("u3", "heron three", parent="u2"),
        user("u4", "heron four", parent="u4"),
    )
    home.reindex()
    assert home.search("heron").total.messages == 4
    assert home.aj("show", SESSION).returncode == 0
    assert home.aj("search", "heron", "--json").returncode == 0


def test_session_that_is_its_own_parent_is_found(home: Home) -> None:
    home.claude(*talk("heron", sessionId="elsewhere"))
    home.claude(*talk("stork", sessionId=SESSION), name="elsewhere")
    home.reindex()
    assert home.search("tell in:user").total.messages == 2


@pytest.mark.parametrize(
    "evil", ["../../../etc/passwd", "..", "a/../../b", "/etc/passwd", "x\0y", "-rf", "%s{0}$(id)`id`"]
)
def test_session_id_that_climbs_out_is_only_a_name(home: Home, evil: str) -> None:
    log = home.copilot_path("plain")
    log.parent.mkdir(parents=True)
    start = {"type": "session.start", "id": "e1", "data": {"sessionId": evil}, "timestamp": "2026-04-01T08:00:00Z"}
    said = {"type": "user.message", "id": "e2", "data": {"content": "a heron"}, "timestamp": "2026-04-01T08:00:01Z"}
    log.write_text(json.dumps(start) + "\n" + json.dumps(said) + "\n")
    home.claude(*talk("stork", sessionId=evil), name="session-by-hand")
    home.history({"display": "an egret", "timestamp": 1, "project": evil, "sessionId": evil})
    before = {name for name in tree(home.path) if not name.startswith(".agent-journal")}
    home.reindex()
    found = home.search("heron OR stork OR egret")
    assert found.total.messages >= 2
    with home.journal() as journal:
        for match in found.matches:
            assert journal.session(match.session.session.key).row == match.session.row
            resume = match.resume
            assert resume is None or resume.argv[-1].removeprefix("--resume=")[:1] not in ("-", ".", "/")
    after = {name for name in tree(home.path) if not name.startswith(".agent-journal")}
    assert after == before


@pytest.mark.parametrize("depth", [50, 150, 400, 900, 5000, 100_000])
def test_deeply_nested_arguments_never_stop_a_run(heron: Home, depth: int) -> None:
    deep = json.dumps(assistant("a1", {"type": "tool_use", "id": "t1", "name": "Bash", "input": "DEEP"}))
    nested = '{"a":' * depth + '"egret"' + "}" * depth
    data = lines([user("u1", "a stork")]).decode() + deep.replace('"DEEP"', nested) + "\n"
    heron.claude_path("deep").write_text(data)
    report = heron.reindex()
    assert report.sources_failed == 0
    assert_heron_found(heron)
    assert heron.search("stork").total.messages == 1
    # Found, or said to be left out: in its place, or as a bad line.
    left_out = heron.search('"nested too deeply"').total.messages + report.bad_lines
    assert heron.search("egret").total.messages + left_out == 1
    assert heron.aj("show", "deep", "--full").returncode == 0


def test_numbers_and_times_beyond_all_limits_never_stop_a_run(heron: Home) -> None:
    records = [
        user("u1", "a stork", timestamp="0001-01-01T00:00:00Z"),
        user("u2", "a stork", timestamp="9999-12-31T23:59:59.999Z"),
        user("u3", "a stork", timestamp=10**30),
        user("u4", "a stork", timestamp="2026-13-45T99:99:99Z"),
        assistant("a1", tool_use("t1", size=2**70, ratio=1e308, odd=float("inf")), out=2**62),
        assistant("a2", tool_use("t2", **{"\ud800": "\udfff", "": None}), out=-5),
        user("r1", [tool_result("t1", "\u0000\u001b[31m\ud83d")]),
    ]
    heron.claude_path("limits").write_text("".join(json.dumps(record) + "\n" for record in records))
    report = heron.reindex()
    assert report.sources_failed == 0
    assert heron.search("stork in:user").total.messages == 4
    assert heron.aj("show", "limits", "--json").returncode == 0
    assert heron.aj("sessions", "--json").returncode == 0
    assert_heron_found(heron)


# --- large things ----------------------------------------------------------------------------------------

MEMORY_MB = 400


# A process starts with the peak of the one it was forked from: a small one stands in between.
MEASURE = (
    "import resource, subprocess, sys; code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode; "
    "print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)


def peak_mb(home: Home, *arguments: str) -> float:
    """Peak memory of the real process."""
    measure = [sys.executable, "-S", "-c", MEASURE, *home.command(*arguments)]
    ended = subprocess.run(
        measure, env=home.process_environ, capture_output=True, text=True, check=True, timeout=LONGEST
    )
    code, peak = map(int, ended.stdout.split())
    assert (code, ended.stderr) == (0, "")
    return peak * (1 if sys.platform == "darwin" else 1024) / 2**20


def test_200_mb_of_nothing_costs_one_line(heron: Home) -> None:
    with heron.claude_path("large").open("wb") as file:
        file.write(lines(talk("stork")))
        file.seek(200 * 2**20, os.SEEK_CUR)
        file.write(b"\n" + lines(talk("crane")))
    assert peak_mb(heron, "reindex") < MEMORY_MB
    assert bad_lines(heron) == ["longer than 64 MB"]
    assert heron.search("tell in:user").total.messages == 3


def test_200_mb_of_bookkeeping_fits_in_memory(heron: Home) -> None:
    snapshot = {
        "type": "file-history-snapshot",
        "messageId": "m",
        "snapshot": {"trackedFileBackups": {"a": "x" * 10**6}},
    }
    block = lines([snapshot] * 20)
    with heron.claude_path("large").open("wb") as file:
        file.write(lines(talk("stork")))
        for _ in range(10):
            file.write(block)
        file.write(lines(talk("crane")))
    assert peak_mb(heron, "reindex") < MEMORY_MB
    assert heron.search("tell in:user").total.messages == 3


def test_line_of_60_mb_is_kept_whole_and_found_by_its_ends(heron: Home) -> None:
    body = "first egret " + "padding " * (60 * 2**20 // 8) + " last bittern"
    asked = [user("u1", "print it"), assistant("a1", tool_use("t1", command="cat"))]
    heron.claude(*asked, user("r1", [tool_result("t1", body)]), name="long")
    heron.reindex()
    assert_heron_found(heron)
    assert [heron.search(word).total.messages for word in ("egret", "bittern")] == [1, 1]
    with heron.journal() as journal:
        (call,) = journal.messages(journal.session("long"))[1].message.tool_calls
        assert call.result == body
    assert heron.aj("search", "bittern").returncode == 0


def test_prompt_of_60_mb_fits_in_memory(heron: Home) -> None:
    heron.claude(user("u1", "first egret " + "padding " * (60 * 2**20 // 8) + " last bittern"), name="long")
    assert peak_mb(heron, "reindex") < MEMORY_MB
    assert [heron.search(word).total.messages for word in ("heron in:user", "egret", "bittern")] == [1, 1, 1]


# --- where the journal lives -----------------------------------------------------------------------------


def test_aj_home_that_is_a_file_is_a_sentence(heron: Home) -> None:
    (heron.path / "file").write_text("not a folder")
    home = Home(heron.path, {"AJ_HOME": str(heron.path / "file")})
    for arguments in (["reindex"], ["search", "heron"], ["sessions"], ["doctor"]):
        ended = home.aj(*arguments)
        assert ended.returncode in (1, 2), arguments
        assert "Traceback" not in ended.stderr
        assert "unexpected" not in ended.stderr
    refused(home.aj("reindex"), str(heron.path / "file"))
    assert (heron.path / "file").read_text() == "not a folder"


def test_index_path_with_missing_parents_is_made_private(heron: Home) -> None:
    heron.configure(f'[storage]\nindex_path = "{heron.path}/a/b/index"\n')
    assert heron.aj("reindex").returncode == 0
    made = [heron.path / "a", heron.path / "a" / "b", heron.path / "a" / "b" / "index"]
    assert [oct(folder.stat().st_mode & 0o777) for folder in made] == ["0o700"] * 3
    assert_heron_found(heron)


def test_journal_of_a_newer_version_is_refused_and_untouched(heron: Home) -> None:
    heron.reindex()
    db = sqlite3.connect(heron.database)
    db.execute("PRAGMA user_version = 99")
    db.close()
    before = heron.database.read_bytes()
    for arguments in (["reindex"], ["reindex", "--full"], ["search", "heron"], ["sessions"], ["show", "x"], ["doctor"]):
        refused(heron.aj(*arguments), "newer agent-journal", "upgrade")
    assert heron.database.read_bytes() == before


def overwrite_middle(data: bytes) -> bytes:
    third = len(data) // 3
    return data[:third] + b"\xa5" * third + data[2 * third :]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "middle overwritten": overwrite_middle,
    "cut in half": lambda data: data[: len(data) // 2],
    "cut to one page": lambda data: data[:4096],
    "garbage header": lambda data: b"garbage, not a header" + data[21:],
    "all garbage": lambda data: b"\xa5" * len(data),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_damaged_journal_says_what_is_lost_and_is_left_alone(home: Home, how: str) -> None:
    for number in range(60):
        home.claude(*talk(f"heron{number}"), *talk(f"stork{number}"), name=f"s{number}")
    home.reindex()
    damaged = DAMAGE[how](home.database.read_bytes())
    home.database.write_bytes(damaged)
    refused(home.aj("reindex", "--full"), "damaged", "rebuilt", "files are gone", "aj reindex")
    assert home.database.read_bytes() == damaged
    ended = home.aj("search", "a heron7 OR stork33 OR tell")
    assert ended.returncode == 2
    assert "damaged" in ended.stderr
    assert home.database.read_bytes() == damaged
    home.database.rename(home.index / "kept-aside")
    assert home.aj("reindex").returncode == 0
    assert home.search("heron7").total.messages == 2


@pytest.mark.parametrize("seed", range(12))
def test_any_damage_is_a_sentence_or_an_answer(home: Home, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(30):
        home.claude(*talk(f"heron{number}"), *talk("stork"), name=f"s{number}")
    home.reindex()
    data = bytearray(home.database.read_bytes())
    for _ in range(chance.choice([1, 30, 300])):
        place = chance.randrange(100, len(data))
        data[place : place + 8] = bytes(chance.randrange(256) for _ in range(8))
    home.database.write_bytes(data)
    for arguments in (["search", "tell"], ["sessions"], ["doctor"], ["reindex", "--full"]):
        ended = home.aj(*arguments)
        assert "Traceback" not in ended.stderr
        assert "unexpected" not in ended.stderr, (arguments, ended.stderr)
        assert ended.returncode in (0, 1, 2)


# --- disks and permissions -------------------------------------------------------------------------------


@contextmanager
def small_disk(folder: Path, options: str) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    mount = shutil.which("mount")
    done = mount and subprocess.run([mount, "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True)
    if not done or done.returncode:
        pytest.skip("mounting a file system is not allowed here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@linux
@pytest.mark.parametrize("size", ["200k", "1m"])
def test_full_disk_is_a_sentence_and_the_next_run_completes(home: Home, tmp_path: Path, size: str) -> None:
    chance = random.Random(1)
    for number in range(60):
        noise = " ".join(f"{chance.getrandbits(64):x}" for _ in range(1500))
        home.claude(*talk("heron", timestamp="2026-03-02T09:15:00.000Z"), user(f"n{number}", noise), name=f"s{number}")
    disk = tmp_path / "disk"
    full = Home(home.path, {"AJ_HOME": str(disk / "journal")})
    alone = Home(home.path, {"AJ_HOME": str(tmp_path / "alone")})
    alone.reindex()
    with small_disk(disk, f"size={size},mode=0700"):
        refused(full.aj("reindex"), "no space left on the disk", "free some space")
        refused(full.aj("reindex"), "no space left on the disk")
        subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)
        ended = full.aj("reindex")
        assert (ended.returncode, ended.stderr) == (0, "")
        with full.journal() as one, alone.journal() as other:
            assert contents(one) == contents(other)
            assert hits(one.search("heron", limit=500)) == hits(other.search("heron", limit=500))


@linux
def test_read_only_journal_folder_is_a_sentence(heron: Home, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    home = Home(heron.path, {"AJ_HOME": str(disk / "journal")})
    with small_disk(disk, "size=50m,mode=0700"):
        assert home.aj("reindex").returncode == 0
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        heron.claude(*talk("stork"), name="another")
        refused(home.aj("reindex"), "cannot be written", "AJ_HOME")
        ended = home.aj("search", "heron")
        assert "Traceback" not in ended.stderr
        assert "unexpected" not in ended.stderr
        assert ended.returncode in (0, 2)


@contextmanager
def open_home() -> Iterator[Home]:
    """A home that another user may enter: pytest's own folders are closed to everybody else."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or not setpriv:
        pytest.skip("needs root, to become somebody else")
    folder = Path(tempfile.mkdtemp(prefix="aj-home-"))
    try:
        folder.chmod(0o755)
        yield Home(folder)
    finally:
        shutil.rmtree(folder)


def as_nobody(home: Home, *arguments: str) -> subprocess.CompletedProcess[str]:
    for path in [home.path, *home.path.rglob("*")]:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    command = [*become, *home.command(*arguments)]
    ended = subprocess.run(command, env=home.process_environ, capture_output=True, text=True, timeout=LONGEST, cwd="/")
    if "No module named" in ended.stderr or "Permission denied: '" + sys.prefix in ended.stderr:
        pytest.skip("the program is not readable for others here")
    return ended


@linux
def test_file_without_permission_is_named_and_tried_again_when_it_is_given() -> None:
    with open_home() as home:
        home.claude(*talk("heron"))
        closed = home.claude(*talk("stork"), name="closed")
        closed.chmod(0)
        ended = as_nobody(home, "reindex", "--json")
        report = json.loads(ended.stdout)
        assert (ended.returncode, report["sources_failed"], report["sources_read"]) == (0, 1, 2)
        assert json.loads(as_nobody(home, "reindex", "--json").stdout)["sources_read"] in (0, 1)
        assert as_nobody(home, "doctor").returncode == 1
        assert as_nobody(home, "search", "heron").returncode == 0
        closed.chmod(0o600)
        assert json.loads(as_nobody(home, "reindex", "--json").stdout)["sources_failed"] == 0
        assert as_nobody(home, "search", "stork").returncode == 0


@linux
@pytest.mark.parametrize("closed", [".claude", ".claude/projects", ".claude/projects/-home-ana-shop"])
def test_folder_that_is_closed_for_a_while_makes_nothing_gone(closed: str) -> None:
    with open_home() as home:
        home.claude(*talk("heron"))
        home.history({"display": "an egret", "timestamp": 1_772_442_900_000, "project": "/home/ana/shop"})
        assert as_nobody(home, "reindex").returncode == 0
        (home.path / closed).chmod(0)
        ended = as_nobody(home, "reindex", "--json")
        report = json.loads(ended.stdout)
        assert (ended.returncode, report["gone"]) == (0, 0)
        assert as_nobody(home, "search", "heron").returncode == 0
        assert as_nobody(home, "search", "is:gone").returncode == 1
        (home.path / closed).chmod(0o700)
        assert json.loads(as_nobody(home, "reindex", "--json").stdout)["sources_read"] == 0


@linux
def test_journal_folder_without_permission_is_a_sentence() -> None:
    with open_home() as home:
        home.claude(*talk("heron"))
        home.path.chmod(0o555)
        refused(as_nobody(home, "reindex"), "cannot be written", "AJ_HOME")
        home.path.chmod(0o755)
