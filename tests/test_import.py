"""`aj import` and `aj validate`: what comes in, what is refused, and that bad records cost nothing but themselves."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import logs
import pytest
from process import CLAUDE, COPILOT, Aj, Ran, two_sessions

from agent_journal.exchange.places import line_of

Records = list[dict[str, Any]]


@pytest.fixture
def aj(tmp_path: Path) -> Aj:
    found = two_sessions(tmp_path / "home")
    assert found("reindex").code == 0
    assert found("export", "--all", "--json", "--no-redact", "-o", "all.ndjson").code == 0
    return found


@pytest.fixture
def other(tmp_path: Path) -> Aj:
    """A machine without agents."""
    home = tmp_path / "other"
    home.mkdir()
    return Aj(home)


def told(ran: Ran) -> str:
    return " ".join(ran.err.split())


def changed(aj: Aj, change: Callable[[Records], object]) -> str:
    """The export with something done to its lines."""
    records = [json.loads(line) for line in (aj.home / "all.ndjson").read_text().splitlines()]
    change(records)
    file = aj.home / "changed.ndjson"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(file)


def exported(aj: Aj) -> list[str]:
    """Every session line, without the header's time."""
    aj("export", "--all", "--json", "--no-redact", "--force", "-o", "again.ndjson")
    return (aj.home / "again.ndjson").read_text().splitlines()[1:]


# --- what comes in --------------------------------------------------------------------------------------


def test_another_journal_has_the_same_sessions_to_the_byte(aj: Aj, other: Aj) -> None:
    ran = other("import", str(aj.home / "all.ndjson"))
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines == [
        "all.ndjson: 2 sessions: 2 new · 8 new messages",
        "found by words now; by meaning after `aj reindex`",
    ]
    assert exported(other) == exported(aj)


def test_imported_twice_is_there_once(aj: Aj, other: Aj) -> None:
    other("import", str(aj.home / "all.ndjson"))
    again = other("import", str(aj.home / "all.ndjson"))
    assert (again.code, again.lines) == (0, ["all.ndjson: 2 sessions: 0 new, 2 there already · 0 new messages"])
    assert exported(other) == exported(aj)


def test_what_its_own_source_gave_stays_as_it_is(aj: Aj) -> None:
    before = exported(aj)
    assert aj("import", "all.ndjson").lines == ["all.ndjson: 2 sessions: 0 new, 2 there already · 0 new messages"]
    assert exported(aj) == before
    assert aj("reindex").code == 0
    assert exported(aj) == before


def test_an_import_is_found_like_any_other_session_and_says_where_it_was_read(aj: Aj, other: Aj) -> None:
    other("import", str(aj.home / "all.ndjson"))
    hit = other("search", "nested quotes survive", "--json").object["matches"][0]
    assert hit["session"]["id"] == CLAUDE
    assert hit["session"]["source"]["path"] == f"{logs.transcript_path(aj.home, CLAUDE)}"
    assert hit["session"]["source"]["gone"]
    assert hit["resume"] is None


def test_a_session_that_turns_up_with_its_own_file_goes_on_there(aj: Aj, other: Aj) -> None:
    other("import", str(aj.home / "all.ndjson"))
    grown = logs.transcript_path(other.home, CLAUDE)
    grown.parent.mkdir(parents=True)
    grown.write_bytes(logs.transcript_path(aj.home, CLAUDE).read_bytes())
    with grown.open("a") as file:
        file.write(json.dumps(logs.user("u9", "Thank you.", "a4")) + "\n")
    other("reindex")
    found = other("sessions", "--json").object["sessions"]
    assert [(s["id"], s["message_count"], s["source"]["gone"]) for s in found if s["id"] == CLAUDE] == [
        (CLAUDE, 7, False)
    ]


def test_messages_that_a_source_has_lost_come_back(aj: Aj) -> None:
    path = logs.transcript_path(aj.home, CLAUDE)
    records = path.read_text().splitlines(keepends=True)
    fresh = Aj(aj.home, {"AJ_HOME": str(aj.home / "second")})
    path.write_text("".join(records[:4]))
    fresh("reindex")
    ran = fresh("import", "all.ndjson")
    assert ran.lines[0] == "all.ndjson: 2 sessions: 0 new, 1 changed, 1 there already · 3 new messages"
    fresh("reindex")
    shown = fresh("show", CLAUDE, "--json").object["messages"]
    assert [m["text"][:15] for m in shown][-1] == "Done: nested qu"


def test_compressed_and_session_data_come_in_too(aj: Aj, other: Aj) -> None:
    aj("export", CLAUDE, "-o", "one.json.gz", "--no-redact")
    aj("export", COPILOT, "-o", "two.ndjson.gz", "--no-redact")
    ran = other("import", str(aj.home / "one.json.gz"), str(aj.home / "two.ndjson.gz"))
    assert (ran.code, ran.lines) == (
        0,
        [
            "one.json.gz: 1 session: 1 new · 6 new messages",
            "two.ndjson.gz: 1 session: 1 new · 2 new messages",
            "2 sessions: 2 new · 8 new messages",
            "found by words now; by meaning after `aj reindex`",
        ],
    )
    assert {s["id"] for s in other("sessions", "--json").object["sessions"]} == {CLAUDE, COPILOT}
    for who in (aj, other):
        who("export", CLAUDE, "-o", "again.json", "--no-redact")
    assert (other.home / "again.json").read_text() == (aj.home / "again.json").read_text()


def test_a_folder_stands_for_the_exports_in_it(aj: Aj, other: Aj) -> None:
    aj("export", "--all", "-f", "sessiondata", "-f", "markdown", "--no-redact", "-o", "both")
    ran = other("import", str(aj.home / "both"))
    assert (ran.code, ran.lines[-2]) == (0, "2 sessions: 2 new · 8 new messages")
    (other.home / "empty").mkdir()
    assert "no file in it ends in .ndjson, .json" in told(other("import", "empty"))


def test_a_later_1_x_is_accepted_and_its_unknown_fields_kept(aj: Aj, other: Aj) -> None:
    def later(records: Records) -> None:
        records[0]["schema_version"] = "1.7"
        records[1]["session"]["mood"] = "good"
        records[1]["messages"][0]["votes"] = 3

    assert other("import", changed(aj, later)).code == 0
    session = json.loads(exported(other)[0])
    assert (session["session"]["mood"], session["messages"][0]["votes"]) == ("good", 3)


def test_a_redacted_export_never_replaces_what_is_nowhere_else(aj: Aj) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    path = logs.transcript_path(aj.home, "5ec2e7aa")
    call = logs.assistant("a1", logs.tool_use("t1", "Bash", command="env"), parent="u1", sessionId="5ec2e7aa")
    result = logs.user("r1", [logs.tool_result("t1", f"TOKEN={token}")], "a1", sessionId="5ec2e7aa")
    logs.write(path, logs.user("u1", "show the environment", sessionId="5ec2e7aa"), call, result)
    aj("reindex")
    aj("export", "5ec2e7aa", "--json", "-o", "redacted.ndjson")
    path.unlink()
    aj("reindex")
    ran = aj("import", "redacted.ndjson")
    assert ran.lines == ["redacted.ndjson: 1 session: 0 new, 1 there already · 0 new messages"]
    assert token in aj("show", "5ec2e7aa", "--full").out


def test_a_file_cannot_name_another_session_nor_bring_a_forgotten_one_back(aj: Aj, other: Aj) -> None:
    def forged(records: Records) -> None:
        records[2]["session"]["extensions"] = {"agent_journal": {"key": f"claude-code:{CLAUDE}"}}
        records[1]["session"]["extensions"] = {"agent_journal": {"key": f"claude-code:{CLAUDE}~abcdef"}}

    before = exported(aj)
    assert aj("forget", CLAUDE, "--yes").code == 0
    ran = aj("import", changed(aj, forged))
    assert ran.lines[0] == "changed.ndjson: 2 sessions: 0 new, 1 there already, 1 left out: forgotten · 0 new messages"
    assert exported(aj) == before[1:]


def test_what_a_file_says_of_itself_never_stands_for_our_own_fields(aj: Aj, other: Aj) -> None:
    def hostile(records: Records) -> None:
        records[1]["session"]["extensions"] = {"unknown_fields": "x", "stated_times": 5}
        records[1]["messages"][0]["extensions"] = {"unknown_fields": {"content": 5, "role": "x"}}
        records[1]["messages"][1]["content"].append({"type": [1]})
        records[2]["messages"][0]["extensions"] = {
            "agent_journal": {"attachments": [[2**62, {"block": "attachment", "kind": "x"}]]}
        }

    assert other("import", changed(aj, hostile)).code == 0
    assert other("export", "--all", "--json", "-o", "b.ndjson").code == 0
    assert other("validate", "b.ndjson").code == 0


def test_another_export_of_an_imported_session_lets_it_grow(aj: Aj, other: Aj) -> None:
    def short(records: Records) -> None:
        records[1]["messages"] = records[1]["messages"][:2]

    assert other("import", changed(aj, short)).code == 0
    ran = other("import", str(aj.home / "all.ndjson"))
    assert ran.lines[0] == "all.ndjson: 2 sessions: 0 new, 1 changed, 1 there already · 4 new messages"
    assert exported(other) == exported(aj)


@pytest.mark.parametrize("lesser", [("--schema", "1.0"), ("--no-thinking",), ("--redact",)])
def test_a_lesser_export_of_what_is_here_adds_and_takes_nothing(aj: Aj, other: Aj, lesser: tuple[str, ...]) -> None:
    """It is cut into other messages, or has placeholders: none of that is new."""
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    secret = logs.user("", f"my token is {token}, use {token} here", sessionId="5ec2e7aa")
    logs.write(logs.transcript_path(aj.home, "5ec2e7aa"), secret, logs.user("", "go on"), logs.user("", "go on"))
    aj("reindex")
    before = exported(aj)
    aj("import", "again.ndjson")
    other("import", str(aj.home / "again.ndjson"))
    assert aj("export", "--all", "--json", *lesser, "-o", "lesser.ndjson").code == 0
    for one in (aj, other):
        ran = one("import", str(aj.home / "lesser.ndjson"))
        assert (ran.code, ran.lines) == (0, ["lesser.ndjson: 3 sessions: 0 new, 3 there already · 0 new messages"])
        assert exported(one) == before


@pytest.mark.parametrize("order", ["all part raw", "part all raw", "raw part all", "all raw part", "part raw all"])
def test_exports_that_are_redacted_otherwise_add_nothing_to_each_other(aj: Aj, other: Aj, order: str) -> None:
    """Each run numbers its placeholders anew, and names a secret's kind by where it meets it first."""
    keys = [
        "ghp_" + "".join(sample)
        for sample in ("a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "Zz9Yy8Xx7Ww6Vv5Uu4Tt3Ss2Rr1Qq0Pp1Oo2")
    ]
    first, second = "11111111-aaaa", "22222222-bbbb"
    logs.write(logs.transcript_path(aj.home, first), logs.user("", f"password: {keys[1]}", sessionId=first))
    logs.write(
        logs.transcript_path(aj.home, second),
        logs.user("", f"use {keys[0]} here", sessionId=second),
        logs.user("", f"use {keys[1]} here", sessionId=second),
        logs.user("", keys[0], sessionId=second),
        logs.assistant("", logs.text(f"I use {keys[0]} and {keys[1]}."), logs.tool_use("t1", "Bash", command="env")),
        logs.user("", [logs.tool_result("t1", f"A={keys[1]}\nB={keys[0]}")]),
    )
    aj("reindex")
    for name, options in {"all": ["--all"], "part": [second], "raw": ["--all", "--no-redact"]}.items():
        assert aj("export", *options, "--json", "-o", f"{name}-exported.ndjson").code == 0
    ran = [other("import", str(aj.home / f"{name}-exported.ndjson")) for name in order.split()]
    assert [one.code for one in ran] == [0, 0, 0]
    new = [int(one.lines[0].split(" · ")[1].split()[0]) for one in ran]
    assert new == {"p": [4, 9, 0]}.get(order[0], [13, 0, 0])
    assert [s["message_count"] for s in other("sessions", "--json").object["sessions"] if s["id"] == second] == [4]


def test_a_fuller_export_completes_a_lesser_one(aj: Aj, other: Aj) -> None:
    aj("export", COPILOT, "--json", "--schema", "1.0", "-o", "lesser.ndjson")
    other("import", str(aj.home / "lesser.ndjson"))
    ran = other("import", str(aj.home / "all.ndjson"))
    assert ran.lines[0] == "all.ndjson: 2 sessions: 1 new, 1 changed · 6 new messages"
    assert exported(other)[0] == exported(aj)[0]


# --- what is refused ------------------------------------------------------------------------------------


def test_a_later_major_version_is_refused_whole(aj: Aj, other: Aj) -> None:
    ran = other("import", changed(aj, lambda records: records[0].update(schema_version="2.0")))
    assert ran.code == 2
    assert "line 1: schema_version: 2.0 is not understood; this program reads 1.x" in told(ran)
    assert not (other.home / ".agent-journal").exists()


@pytest.mark.parametrize("version", ["2.0", "1", "1.x", ""])
def test_a_blank_first_line_hides_no_version(aj: Aj, other: Aj, version: str) -> None:
    file = changed(aj, lambda records: records[0].update(schema_version=version))
    Path(file).write_text("\n" + Path(file).read_text())
    ran = other("import", file)
    assert ran.code == 2
    assert "this program reads 1.x" in told(ran)
    assert not (other.home / ".agent-journal").exists()


def test_a_header_that_lies_is_named_and_every_session_is_taken(aj: Aj, other: Aj) -> None:
    ran = other("import", changed(aj, lambda records: records[0].update(session_count=5)))
    assert (ran.code, ran.lines[0]) == (2, "changed.ndjson: 2 sessions: 2 new · 8 new messages")
    assert "the header promises 5 sessions, the file has 2" in told(ran)


def test_an_id_that_stands_twice_is_taken_once(aj: Aj, other: Aj) -> None:
    def doubled(records: Records) -> None:
        records.append(records[1])
        records[0]["session_count"] = 3

    ran = other("import", changed(aj, doubled))
    assert (ran.code, ran.lines[0]) == (2, "changed.ndjson: 2 sessions: 2 new · 8 new messages")
    assert f":4: session '{CLAUDE}' stands on line 2 already" in told(ran)


def test_a_bad_record_is_named_with_its_place_and_the_rest_comes_in(aj: Aj, other: Aj) -> None:
    def broken(records: Records) -> None:
        records[1]["messages"][2]["role"] = "wizard"

    ran = other("import", changed(aj, broken))
    assert (ran.code, ran.lines[0]) == (2, "changed.ndjson: 1 session: 1 new · 2 new messages")
    assert told(ran).endswith("changed.ndjson:2: messages[2]: Invalid enum value 'wizard' - at `role`")


def test_a_truncated_gz_gives_what_was_whole_in_it(aj: Aj, other: Aj) -> None:
    packed = gzip.compress((aj.home / "all.ndjson").read_bytes())
    (aj.home / "cut.ndjson.gz").write_bytes(packed[:-20])
    ran = other("import", str(aj.home / "cut.ndjson.gz"))
    assert ran.code == 2
    assert "the file is damaged or cut off here" in told(ran)
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"hello\n", "neither NDJSON nor SessionData"),
        (b'{"a": 1}\n', "neither NDJSON nor SessionData"),
        (b'{"type": "header"}\n', "line 1: Object missing required field `schema_version`"),
        (b"[" * 100_000, "neither NDJSON nor SessionData"),
        (b"\xff\xfe\x00", "neither NDJSON nor SessionData"),
        (b'{"schemaVersion": "1.0"}', "is a required property"),
    ],
)
def test_a_file_of_another_kind_is_a_sentence(other: Aj, content: bytes, said: str) -> None:
    (other.home / "file").write_bytes(content)
    for command in ("import", "validate"):
        ran = other(command, "file")
        assert ran.code == 2
        if command == "import":
            assert said in told(ran)
        assert "Traceback" not in ran.err
        assert "unexpected" not in ran.err
    assert not (other.home / ".agent-journal").exists()


def test_a_file_of_another_kind_does_not_keep_the_others_out(aj: Aj, other: Aj) -> None:
    (other.home / "notes.json").write_text('{"a": 1}')
    good = str(aj.home / "all.ndjson")
    ran = other("import", "notes.json", "nosuch", good)
    assert (ran.code, ran.lines[-2]) == (2, "2 sessions: 2 new · 8 new messages")
    assert ran.err.splitlines() == [
        "~/notes.json: neither NDJSON nor SessionData",
        "~/nosuch: No such file or directory",
    ]
    ran = other("validate", "nosuch", "notes.json", good)
    assert (ran.code, [line.rpartition(": ")[2] for line in ran.lines]) == (
        2,
        ["No such file or directory", "1 problem", "neither NDJSON nor SessionData", "1 problem", "valid"],
    )


def test_millions_of_bad_lines_are_not_all_told(other: Aj) -> None:
    header = {"type": "header", "schema_version": "1.1", "session_count": 0}
    (other.home / "many.ndjson").write_text(json.dumps(header) + "\n" + "{}\n" * 12_000)
    ran = other("validate", "many.ndjson", "--json")
    assert ran.code == 2
    problems = ran.object["files"][0]["problems"]
    assert len(problems) < 10_100
    assert problems[-1]["text"] == "too many problems; the rest of the file is not checked"


def test_a_missing_file_and_a_folder_are_sentences(other: Aj) -> None:
    for name in ("nosuch", "."):
        ran = other("import", name)
        assert ran.code == 2
        assert "unexpected" not in ran.err


def test_the_example_of_a_minimal_session_has_nothing_to_keep(other: Aj) -> None:
    minimal = {
        "schemaVersion": "1.0",
        "provider": {"id": "claude", "name": "Claude Code", "version": "1.0.0"},
        "sessionId": "30cc3569-a9d4-429e-981a-ab73e3ddee5f",
        "createdAt": "2025-10-24T10:00:00Z",
        "workspaceRoot": "/Users/alice/project",
        "exchanges": [],
    }
    (other.home / "minimal.json").write_text(json.dumps(minimal, indent=2))
    assert other("validate", "minimal.json").lines[0] == "minimal.json: SessionData, 1 session: valid"
    ran = other("import", "minimal.json")
    assert (ran.code, ran.lines) == (0, ["minimal.json: 1 session: 0 new, 1 left out: empty · 0 new messages"])


def test_numbers_beyond_64_bits_and_deep_values_are_kept_or_named(aj: Aj, other: Aj) -> None:
    def strange(records: Records) -> None:
        records[1]["messages"][1]["content"][1]["input"] = {"big": 2**80}

    ran = other("import", changed(aj, strange))
    assert (ran.code, ran.err) == (0, "")
    assert str(2**80) in "".join(exported(other))


def test_one_bad_file_among_others_is_named_and_the_others_come_in(aj: Aj, other: Aj) -> None:
    (aj.home / "some").mkdir()
    (aj.home / "some" / "0.json").write_text('{"schemaVersion": "2.0"}')
    (aj.home / "some" / "1.ndjson").write_text("hello\n")
    aj("export", CLAUDE, "--no-redact", "-o", "some/2.json")
    (aj.home / "some" / "3.ndjson").write_text('{"type":"header","schema_version":"2.0"}\n')
    folder = aj.home / "some"
    wrong = [
        f"{folder}/0.json: schemaVersion: 2.0 is not understood; this program reads 1.0",
        f"{folder}/1.ndjson: neither NDJSON nor SessionData (JSON is malformed: invalid character (byte 0))",
        f"{folder}/3.ndjson: line 1: schema_version: 2.0 is not understood; this program reads 1.x",
    ]
    ran = other("import", str(folder))
    assert (ran.code, ran.err.splitlines()) == (2, wrong)
    assert ran.lines[-2] == "1 session: 1 new · 6 new messages"
    alone = other("import", str(folder / "0.json"))
    assert (alone.code, told(alone).split(" a later")[0]) == (2, f"aj: {wrong[0]}")
    checked = aj("validate", "some")
    assert checked.code == 2
    assert (
        "some/1.ndjson: neither NDJSON nor SessionData (JSON is malformed: invalid character (byte 0))" in checked.out
    )
    assert "some/2.json: SessionData, 1 session: valid" in checked.lines


def test_optional_fields_may_be_null(aj: Aj, other: Aj) -> None:
    def quiet(records: Records) -> None:
        for name in ("uuid", "parent_uuid", "timestamp", "metadata"):
            records[2]["messages"][0][name] = None
        records[2]["messages"][1]["metadata"] = dict.fromkeys(("cwd", "is_meta", "model", "token_usage", "request_id"))
        records[2]["graph"] = None

    file = changed(aj, quiet)
    assert aj("validate", file).lines[0].endswith("NDJSON, 2 sessions: valid")
    assert other("import", file).code == 0


# --- validate -------------------------------------------------------------------------------------------


def test_validate_says_valid(aj: Aj) -> None:
    ran = aj("validate", "all.ndjson")
    assert (ran.code, ran.lines, ran.err) == (0, ["all.ndjson: NDJSON, 2 sessions: valid"], "")
    assert aj("validate", "all.ndjson", "--json").object == {
        "schema_version": 1,
        "files": [{"path": "all.ndjson", "format": "NDJSON", "sessions": 2, "problems": [], "remarks": []}],
    }


def test_validate_names_line_and_place(aj: Aj) -> None:
    def wrong(records: Records) -> None:
        records[0]["session_count"] = 9
        records[1]["messages"][2]["role"] = "wizard"
        del records[2]["session"]["agent"]
        records[2]["messages"][0]["index"] = 0

    file = changed(aj, wrong)
    ran = aj("validate", file)
    name = "~/changed.ndjson"
    assert ran.code == 2
    assert ran.lines == [
        f"{name}:2: messages[2].role: 'wizard' is not one of ['user', 'assistant', 'system']",
        f"{name}:3: messages[0].index: 0 is less than the minimum of 1",
        f"{name}:3: session: 'agent' is a required property",
        f"{name}: the header promises 9 sessions, the file has 2: it may have been cut off",
        f"{name}: NDJSON, 2 sessions: 4 problems",
    ]


def test_validate_names_ids_that_stand_twice(aj: Aj) -> None:
    def doubled(records: Records) -> None:
        records[1]["messages"][3]["uuid"] = records[1]["messages"][1]["uuid"]
        records.append(records[2])
        records[0]["session_count"] = 3

    ran = aj("validate", changed(aj, doubled))
    name = "~/changed.ndjson"
    assert (ran.code, ran.lines) == (
        2,
        [
            f"{name}:2: messages[3].uuid: 'a1' is that of messages[1] already",
            f"{name}:4: session.id: '{COPILOT}' stands on line 3 already",
            f"{name}: NDJSON, 3 sessions: 2 problems",
        ],
    )


def test_validate_names_ids_that_stand_twice_in_session_data(aj: Aj) -> None:
    aj("export", CLAUDE, "-o", "one.json")
    text = (aj.home / "one.json").read_text().replace('"id": "u2"', '"id": "u1"')
    (aj.home / "one.json").write_text(text)
    line = [number for number, line in enumerate(text.splitlines(), start=1) if '"id": "u1"' in line][1]
    ran = aj("validate", "one.json")
    assert (ran.code, ran.lines) == (
        2,
        [
            f"one.json:{line}: exchanges[1].messages[0].id: 'u1' is that of exchanges[0].messages[0] already",
            "one.json: SessionData, 1 session: 1 problem",
        ],
    )


def test_strict_validation_knows_only_the_formats_own_agents(aj: Aj) -> None:
    ran = aj("validate", "--strict", "all.ndjson")
    assert (ran.code, ran.lines[0]) == (
        2,
        "all.ndjson:3: session.agent: 'copilot-cli' is not one of claude-code, codex, gemini",
    )


def test_a_1_0_export_is_valid_and_other_agents_are_a_remark_unless_strict(aj: Aj) -> None:
    aj("export", "--all", "--json", "--schema", "1.0", "-o", "old.ndjson")
    ran = aj("validate", "old.ndjson")
    assert (ran.code, ran.lines) == (
        0,
        ["old.ndjson: NDJSON, 2 sessions: valid", "  agents that schema 1.0 does not name: copilot-cli (1)"],
    )
    assert aj("validate", "--strict", "old.ndjson").code == 2


def test_untimed_messages_and_empty_sessions_are_remarks(aj: Aj) -> None:
    def quiet(records: Records) -> None:
        del records[1]["messages"][0]["timestamp"]
        records[2]["messages"] = []

    ran = aj("validate", changed(aj, quiet))
    assert (ran.code, ran.lines) == (
        0,
        ["~/changed.ndjson: NDJSON, 2 sessions: valid", "  1 empty session", "  1 message without a time"],
    )


@pytest.mark.parametrize(
    ("place", "line"),
    [("a", 2), ("b.c", 4), ("b.c[0].d", 6), ("b.c[1].d.f", 14), ("b.c[7]", 4), ("nosuch", 1)],
)
def test_a_place_in_session_data_has_a_line(place: str, line: int) -> None:
    value = {"a": 1, "b": {"c": [{"d": "x", "e,:[": [1, 2]}, {"d": {"f": '"}]'}}]}, "g": ""}
    assert line_of(json.dumps(value, indent=1), place) == line


def test_validate_names_the_line_of_session_data_too(aj: Aj) -> None:
    aj("export", CLAUDE, "-o", "one.json")
    text = (aj.home / "one.json").read_text().replace('"type": "shell"', '"type": "magic"')
    (aj.home / "one.json").write_text(text)
    line = next(number for number, line in enumerate(text.splitlines(), start=1) if '"magic"' in line)
    ran = aj("validate", "one.json")
    assert ran.code == 2
    assert ran.lines[0].startswith(f"one.json:{line}: exchanges[0].messages[")
    assert "'magic' is not one of" in ran.lines[0]
