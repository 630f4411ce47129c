"""Secrets are replaced wherever they stand, the same by the same, and nothing else is."""

from __future__ import annotations

import json
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import logs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_secrets import INNOCENT, Made, made
from msgspec import structs
from process import Aj

from agent_journal.redaction import Redactor
from agent_journal.redaction_hidden import shown
from agent_journal.render.clean import clean_text
from agent_journal.session import (
    Account,
    Attachment,
    Message,
    Origin,
    Role,
    Session,
    Text,
    Thinking,
    ToolCall,
    ToolType,
    derive,
)

MADE = made()
TOKEN = "gh" + "p_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.mark.parametrize("case", MADE, ids=lambda case: case.label)
def test_secret_of_every_shape_is_replaced_whole_and_nothing_beside_it(case: Made) -> None:
    redactor = Redactor()
    assert redactor.text(case.text) == case.text.replace(case.secret, f"REDACTED-{case.kind}-1")
    assert redactor.counts == {case.kind: 1}


def test_secrets_of_other_luck_are_found_as_well() -> None:
    cases = [case for seed in range(2, 30) for case in made(seed)]
    missed = [case for case in cases if case.secret in Redactor().text(case.text)]
    # The check of randomness gives up one in a hundred, so as not to take names for keys.
    assert [case for case in missed if case.kind != "random-token"] == []
    assert len(missed) <= 0.02 * sum(case.kind == "random-token" for case in cases)


@pytest.mark.parametrize("text", INNOCENT)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    redactor = Redactor()
    assert redactor.text(text) is text
    assert redactor.counts == {}


def test_same_secret_has_the_same_number_and_others_count_on() -> None:
    other = TOKEN.replace("a1", "b2")
    redactor = Redactor()
    assert redactor.text(f"{TOKEN} {other} {TOKEN}") == (
        "REDACTED-github-token-1 REDACTED-github-token-2 REDACTED-github-token-1"
    )
    assert redactor.text(f"PASSWORD=hunter2 {other}") == "PASSWORD=REDACTED-password-1 REDACTED-github-token-2"
    assert redactor.counts == {"github-token": 4, "password": 1}
    assert redactor.text("ftp://ann:hunter2@host ftp://user:pass@host") == (
        "ftp://ann:REDACTED-password-1@host ftp://user:REDACTED-url-password-1@host"
    )


def test_private_key_escaped_in_json_is_the_same_as_the_one_in_the_file() -> None:
    plain, escaped = [case for case in MADE if case.kind == "private-key"][:2]
    redactor = Redactor()
    redactor.text(plain.text)
    again = escaped.text.replace(escaped.secret, plain.secret.replace("\n", "\\n"))
    assert "REDACTED-private-key-1" in redactor.text(again)


@pytest.mark.parametrize(
    "before",
    ["\x1b[01;31m\x1b[K", "\x1b]8;;http://x\x07", "\x9b1m", "a\u200b\x1b[0m", r"\u0022", "a%20", r"\x1b[0m",
     r"\033[1;31m", r"\n", r"\\n", r"\x22", "[31m[K[0m", r"\e[m"],
)  # fmt: skip
def test_key_behind_a_colour_or_an_escape_is_replaced_and_the_colour_stays(before: str) -> None:
    jwt = next(case.secret for case in MADE if case.kind == "jwt")
    assert Redactor().text(f"{before}{TOKEN}\x1b[m!") == f"{before}REDACTED-github-token-1\x1b[m!"
    assert Redactor().text(f"{before}{jwt}\x1b[m!") == f"{before}REDACTED-jwt-1\x1b[m!"


def test_redaction_sees_through_all_that_a_screen_does_not_show() -> None:
    """Two lists, for two layers: one that forgot a character would let a key pass that a reader sees whole."""
    every = map(chr, range(sys.maxunicode + 1))
    assert [f"{c!r}" for c in every if clean_text(f"a{c}b") == "ab" and shown(f"a{c}b") != "ab"] == []


@pytest.mark.parametrize(
    "hidden", ["\u200b", "\u200d", "\ufeff", "\u00ad", "\x00", "\x1b[0m", "\U000e0041", "\u2060\x08"]
)
def test_key_with_something_invisible_inside_is_the_same_key(hidden: str) -> None:
    redactor = Redactor()
    assert redactor.text(f"\ufeff{TOKEN[:9]}{hidden}{TOKEN[9:]} \x1b[1mand{hidden} {TOKEN}{hidden}") == (
        f"\ufeffREDACTED-github-token-1 \x1b[1mand{hidden} REDACTED-github-token-1{hidden}"
    )
    assert redactor.text(f"pass{hidden}word={hidden}hunter2{hidden}") == (
        f"pass{hidden}word={hidden}REDACTED-password-1{hidden}"
    )


def test_invisible_characters_stay_where_nothing_is_secret() -> None:
    text = "\x1b[31mred\x1b[0m \u26a0\ufe0f a\u200bb"
    assert Redactor().text(text) is text


def test_secret_that_only_contains_a_placeholder_is_replaced_whole() -> None:
    assert Redactor().text(f"{TOKEN}REDACTED-a-1") == "REDACTED-github-token-1"
    for password in ("hunREDACTED-a-1ter2", "REDACTED-a-1ter2", "hunter-REDACTED-a-1"):
        assert Redactor().text(f"ftp://ann:{password}@host") == "ftp://ann:REDACTED-url-password-1@host"
    assert Redactor().value({"password": "hunREDACTED-a-1ter2"}) == {"password": "REDACTED-password-1"}
    done = {"password": "REDACTED-a-1", "Authorization": "Bearer REDACTED-bearer-token-1"}
    assert Redactor().value(done) is done


def test_value_in_quotes_ends_at_the_first_quote_that_is_not_escaped() -> None:
    assert Redactor().text(r'password="a1\"b2" x="y"') == 'password="REDACTED-password-1" x="y"'
    assert Redactor().text('password="hunter2\\"') == 'password="REDACTED-password-1"'
    assert Redactor().text('password="" x="hunter2"') == 'password="" x="hunter2"'


def test_second_look_changes_nothing() -> None:
    everything = "\n".join(case.text for case in MADE)
    once = Redactor().text(everything)
    again = Redactor()
    assert again.text(once) == once
    assert again.counts == {}


PIECES = st.sampled_from(
    [case.text for case in MADE]
    + [case.secret for case in MADE]
    + [
        "password",
        "=",
        ": ",
        '"',
        "'",
        "token",
        " ",
        "\n",
        "\\n",
        "key",
        "://",
        "@",
        "REDACTED-",
        "-1",
        "REDACTED-a-1",
        "\x1b[0m",
        "\u200b",
        "%20",
        "Bearer ",
        "7",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(PIECES, st.text(max_size=6)), max_size=12).map("".join))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    once = Redactor().text(text)
    assert Redactor().text(once) == once


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.one_of(PIECES, st.text(), st.integers(), st.none()), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
    )
)
def test_json_stays_json_of_the_same_form(value: object) -> None:
    def form(v: object) -> object:
        if isinstance(v, dict):
            return {key: form(item) for key, item in v.items()}
        return list(map(form, v)) if isinstance(v, list) else type(v)

    redacted = Redactor().value(value)
    assert form(redacted) == form(value)
    assert Redactor().value(redacted) == redacted


def test_placeholder_leaves_json_urls_and_shell_lines_what_they_were() -> None:
    redactor = Redactor()
    assert json.loads(redactor.text(json.dumps({"password": "hunter2", "n": 1}))) == {
        "password": "REDACTED-password-1",
        "n": 1,
    }
    url = urlsplit(Redactor().text("postgres://ann:hunter2@db:5432/shop"))
    assert (url.hostname, url.port, url.password) == ("db", 5432, "REDACTED-url-password-1")
    assert re.fullmatch(r"[\w-]+", redactor.text(TOKEN))


def test_name_of_a_field_tells_that_its_value_is_a_secret() -> None:
    value = {
        "password": "correct horse battery staple",
        "env": {"STRIPE_KEY": "a1b2c3d4e5f6a7b8", "HOME": "/home/ann", "DEBUG": True},
        "headers": {"Authorization": "Bearer abcdef123456", "Accept": "text/html"},
        "token": "identifier",
        "list": [{"secret": "s3cr3t-v4lue"}, 7, None],
    }
    assert Redactor().value(value) == {
        "password": "REDACTED-password-1",
        "env": {"STRIPE_KEY": "REDACTED-api-key-1", "HOME": "/home/ann", "DEBUG": True},
        "headers": {"Authorization": "Bearer REDACTED-bearer-token-1", "Accept": "text/html"},
        "token": "identifier",
        "list": [{"secret": "REDACTED-secret-1"}, 7, None],
    }


def test_half_a_key_in_a_title_cut_short_is_replaced() -> None:
    assert Redactor().text(f"use {TOKEN[:24]}…") == "use REDACTED-github-token-1…"


NOW = datetime(2026, 1, 2, tzinfo=UTC)


def account(secret: str, call_id: str = "toolu_01A09q90qw90lq917835lq9") -> Account:
    session = Session(
        key="claude-code:5f0c",
        id="5f0c",
        agent="claude-code",
        origin=Origin("/home/ann/.claude/x.jsonl"),
        title=f"try {secret}",
        summary=secret,
        slug=secret,
        workspace="/home/ann/shop",
        git_branch=f"fix/{secret}",
        extensions={"note": secret},
    )
    call = ToolCall(
        id=call_id,
        name="Bash",
        type=ToolType.SHELL,
        arguments={"command": f"echo {secret}", "timeout": 5},
        result=f"{secret}\n",
        success=True,
        paths=(f"/tmp/{secret}",),
        details={"stdout": secret, "exit": 0},
    )
    blocks = (Text(secret, uuid="u1"), Thinking(secret), Attachment("file", name=secret, text=secret), call)
    message = Message(
        Role.ASSISTANT, blocks, uuid="u1", at=NOW, model="claude-opus-4", git_branch=secret, extensions={"e": [secret]}
    )
    return Account(session, derive(session, [message]), (message,), (1,))


def test_every_text_of_a_session_is_read_and_its_ids_are_not() -> None:
    redactor = Redactor()
    assert redactor.account(account(TOKEN)) == account("REDACTED-github-token-1")
    assert redactor.counts == {"github-token": 16}


def test_key_in_the_name_of_a_folder_is_gone_from_all_that_is_made_of_the_name() -> None:
    whole = account("nothing")
    encoded = "-home-ann-" + TOKEN.replace("_", "-")
    session = structs.replace(
        whole.session,
        workspace=f"/home/ann/{TOKEN}",
        workspace_encoded=encoded,
        origin=Origin(f"/home/ann/.claude/projects/{encoded}/5f0c.jsonl"),
    )
    redactor = Redactor()
    assert redactor.announced(session).workspace == "/home/ann/REDACTED-github-token-1"
    assert redactor.counts == {}
    read = redactor.account(structs.replace(whole, session=session, derived=derive(session, whole.messages)))
    assert read.session == structs.replace(
        session,
        workspace="/home/ann/REDACTED-github-token-1",
        workspace_encoded="-home-ann-REDACTED-github-token-1",
        origin=Origin("/home/ann/.claude/projects/-home-ann-REDACTED-github-token-1/5f0c.jsonl"),
    )
    assert read.derived.project == "REDACTED-github-token-1"
    assert redactor.counts == {"github-token": 3}


def test_key_in_the_name_of_a_folder_is_gone_from_the_header_of_an_export(tmp_path: Path) -> None:
    aj = Aj(tmp_path / "home")
    said = logs.user("k1", f"look at {TOKEN[::-1]}", sessionId="5ec2e700", cwd=f"/home/ann/{TOKEN}")
    logs.write(logs.transcript_path(aj.home, "5ec2e700"), said)
    assert aj("reindex").code == 0
    ran = aj("export", "--all", "-f", "ndjson", "-o", "-")
    header, session = map(json.loads, ran.out.splitlines())
    assert header["workspaces"] == ["REDACTED-github-token-1"]
    assert session["session"]["workspace"] == "/home/ann/REDACTED-github-token-1"
    assert TOKEN[4:] not in ran.out
    assert TOKEN in aj("export", "--all", "-f", "ndjson", "--no-redact", "-o", "-").out.splitlines()[0]


def test_session_without_secrets_is_the_very_same_object() -> None:
    plain = account("nothing to hide")
    assert Redactor().account(plain) is plain


def test_key_named_in_one_message_is_replaced_where_it_stands_bare_in_another() -> None:
    secret = "q8w7e6r5t4y3u2i1"
    messages = tuple(
        Message(Role.USER, (Text(text),))
        for text in (f"it printed {secret}", f"MAPS_KEY={secret}", "PASSWORD=postgres")
    )
    whole = account("postgres is up")
    redacted = Redactor().account(Account(whole.session, whole.derived, messages, (1, 2, 3)))
    assert [message.text for message in redacted.messages] == [
        "it printed REDACTED-api-key-1",
        "MAPS_KEY=REDACTED-api-key-1",
        "PASSWORD=REDACTED-password-1",
    ]
    assert redacted.session is whole.session  # the weak password is also a name: only where it is given as one


HOSTILE = (
    "eyJ", "eyJ-", "sk-", "sk-a1B2c", "key", 'key="', "password=", "token: ", "://a:", "://", "curl -u ", "a", "İ",
    "PRIVATE KEY-----", "PRIVATE KEY-----\nComm: 1 ", "hvs.a1.", "A.", "MTaaaaaaaaaaaaaaaaaaaaaaaaaa.", ":AA", "\\",
    "authorization: ", "REDACTED-a-1 key=a1B2c3D4e5F6 ", '\\"', "xoxb-1-", "secret" + " " * 39, "bearer ",
    "PASSWORD='\\", "token=a_b-c.1/", "token='a_b_c_d" + "_e" * 900 + "!1'", "secret='" + "!?" * 900 + "'",
    "\x1b[", "\x1b]", "\x1b]" + "a" * 4000, "\u200b", "%20", "[0m", "%20eyJ", "PASSWORD=$A", "token=a...", "PASSWORD=;",
    'PASSWORD="ab!' + "\\" * 1900 + '"\n', 'token="' + "\\a" * 900, "://a:REDACTED-a-1", "\x1b[0m" + TOKEN,
)  # fmt: skip


def seconds_for(text: str) -> float:
    started = time.process_time()
    assert Redactor().text(text)
    return time.process_time() - started


@pytest.mark.parametrize("piece", HOSTILE)
def test_eight_times_the_hostile_text_takes_about_eight_times_as_long(piece: str) -> None:
    """Quadratic, it would be 64 times."""
    short, long = (seconds_for(piece * (length // len(piece))) for length in (62_500, 500_000))
    assert long < 24 * max(short, 0.02)


@pytest.mark.parametrize(
    "repeated", ["\\a", "\\", '\\"', "\\'", "a\\", "\\\\n", ";", ",)", "\\ ", "a.", "_", "A_", "/", "-a"]
)
@pytest.mark.parametrize("opening", ['token="', "password='", r"secret=\"", "API_KEY=", "PASSWORD=", "key: ", "://a:"])
def test_value_that_never_ends_does_not_keep_anyone_waiting(opening: str, repeated: str) -> None:
    assert Redactor().text(opening + repeated * 5000 + "!")


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    assert isinstance(Redactor().text(text), str)
