"""`aj config` through a real process: what it prints, and what it leaves in the file."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from process import Aj

from agent_journal import config

FILE = "~/.agent-journal/config.toml"


@pytest.fixture
def aj(tmp_path: Path) -> Aj:
    return Aj(tmp_path)


def config_file(aj: Aj) -> Path:
    return aj.home / ".agent-journal" / "config.toml"


def test_show_marks_what_is_not_a_default(aj: Aj) -> None:
    config_file(aj).parent.mkdir()
    config_file(aj).write_text('[search]\nmax_results = 5\n[index]\nexclude = ["~/private/**"]\n')
    ran = aj.having(AJ_CLAUDE_PATH="/srv/claude")("config", "show")
    assert (ran.code, ran.err) == (0, "")
    named = [line for line in ran.lines if not re.match(r"storage\.sources\.(?!copilot_cli|claude_code|only)", line)]
    assert named == [
        'storage.index_path = "~/.agent-journal/index"',
        "storage.roots = []",
        "storage.sources.copilot_cli = []",
        'storage.sources.claude_code = ["/srv/claude"]  # environment AJ_CLAUDE_PATH',
        "storage.sources.only = false",
        "index.writer_memory_mb = 64",
        'index.vector_precision = "f16"',
        "index.thinking = true",
        "index.tool_output_chars = 20000",
        'index.exclude = ["~/private/**"]  # file',
        "index.vector.enabled = true",
        'index.vector.model = ""',
        'index.vector.model_path = "~/.chats/models"',
        "index.vector.threads = 0",
        "index.vector.thinking = true",
        "index.vector.tool_input = true",
        "index.vector.tool_output = false",
        'index.vector.fallback = "hash"',
        'search.default_mode = "hybrid"',
        "search.default_context = 3",
        "search.max_results = 5  # file",
        "search.clip_chars = 600",
        'export.default_format = "html"',
        'export.html_theme = "dark"',
        "export.include_tool_calls = true",
    ]


def test_show_json_has_values_and_origins(aj: Aj) -> None:
    ran = aj.having(AJ_HOME=str(aj.home / "elsewhere"))("config", "show", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert set(ran.object) == {"schema_version", "path", "config", "origins"}
    assert ran.object["path"] == "~/elsewhere/config.toml"
    assert ran.object["config"]["search"]["max_results"] == 20
    assert ran.object["origins"]["storage.index_path"] == "environment AJ_HOME"


def test_path_of_a_file_that_need_not_exist(aj: Aj) -> None:
    ran = aj("config", "path")
    assert (ran.code, ran.out, ran.err) == (0, f"{FILE}\n", "")
    assert aj("config", "path", "--json").object == {"schema_version": 1, "path": FILE, "exists": False}


def test_init_writes_the_example_once(aj: Aj) -> None:
    first, second = aj("config", "init"), aj("config", "init")
    assert (first.code, first.out, first.err) == (0, f"wrote {FILE}\n", "")
    assert (second.code, second.out, "~/.agent-journal/config.toml" in second.err) == (2, "", True)
    assert config_file(aj).read_text("utf-8") == config.example_text()


def test_set_changes_one_line_and_get_reads_it(aj: Aj) -> None:
    config_file(aj).parent.mkdir()
    config_file(aj).write_text("# mine\n[search]\nmax_results = 5 # few\n")
    ran = aj("config", "set", "search.max_results", "30")
    assert (ran.code, ran.out, ran.err) == (0, f"search.max_results = 30 (was 5) in {FILE}\n", "")
    assert config_file(aj).read_text() == "# mine\n[search]\nmax_results = 30 # few\n"
    assert aj("config", "get", "search.max_results").out == "30\n"
    got = aj("config", "get", "search.max_results", "--json").object
    assert got == {"schema_version": 1, "key": "search.max_results", "value": 30, "origin": "file"}


def test_set_of_a_list_and_get_one_entry_a_line(aj: Aj) -> None:
    ran = aj("config", "set", "index.exclude", "/a/**,/b", "--json")
    assert ran.object == {
        "schema_version": 1,
        "key": "index.exclude",
        "before": [],
        "after": ["/a/**", "/b"],
        "origin": "file",
        "path": FILE,
    }
    assert aj("config", "get", "index.exclude").lines == ["/a/**", "/b"]


def test_set_below_the_environment_says_who_wins(aj: Aj) -> None:
    ran = aj.having(AJ_CLAUDE_PATH="/srv/claude")("config", "set", "storage.sources.claude_code", "/home/x")
    assert (ran.code, ran.err) == (0, "aj: the environment AJ_CLAUDE_PATH is set and still wins over the file\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["get", "search.limit"], "unknown key search.limit"),
        (["set", "search.max_results", "many"], "search.max_results must be a whole number from 1 to 10000"),
        (["set", "search.mode", "lexical"], "unknown key search.mode; [search] has default_mode, "),
        (["set", "index.vector_precision", "f8"], "index.vector_precision must be one of f16, f32"),
    ],
)
def test_wrong_key_or_value_is_named_and_nothing_is_written(aj: Aj, arguments: list[str], said: str) -> None:
    ran = aj("config", *arguments)
    assert (ran.code, ran.out, said in " ".join(ran.err.split())) == (2, "", True)
    assert not config_file(aj).exists()


def test_broken_file_is_named_with_its_line_and_left_alone(aj: Aj) -> None:
    config_file(aj).parent.mkdir()
    config_file(aj).write_text("[search]\nmax_result = 5\n")
    for arguments in (["search", "x"], ["config", "get", "search.clip_chars"], ["config", "show"]):
        ran = aj(*arguments)
        said = " ".join(ran.err.split())
        assert (ran.code, ran.out) == (2, "")
        assert f"{FILE}, line 2: unknown key search.max_result; did you mean search.max_results?" in said
    assert config_file(aj).read_text() == "[search]\nmax_result = 5\n"


def test_a_file_that_is_wrong_elsewhere_can_be_mended_key_by_key(aj: Aj) -> None:
    config_file(aj).parent.mkdir()
    config_file(aj).write_text('[search]\nmax_result = 5\nclip_chars = "few"\n')
    unknown = f"{FILE}, line 2: unknown key search.max_result; did you mean search.max_results?"
    ran = aj("config", "set", "search.clip_chars", "100")
    assert (ran.code, ran.out) == (0, f"search.clip_chars = 100 in {FILE}\n")
    assert ran.err == f"aj: still wrong: {unknown}\n"
    assert config_file(aj).read_text() == "[search]\nmax_result = 5\nclip_chars = 100\n"
    ran = aj("config", "set", "search.max_result", "7")
    assert (ran.code, ran.out, "unknown key search.max_result" in ran.err) == (2, "", True)


def test_a_table_without_keys_says_how_to_get_one(aj: Aj) -> None:
    how = "to set one: aj config set homes.NAME PATH"
    assert aj("config", "get", "homes").err == f"aj: no other home is set; {how}\n"
    assert " ".join(aj("config", "set", "homes", "x").err.split()) == (
        f"aj: homes is a table, and each of its keys is a name of yours; {how}"
    )
    for name in ("homes.local", "homes.Laptop"):
        assert " ".join(aj("config", "set", name, "/mnt/c").err.split()) == (
            f"aj: {name}: a home's name is of small letters, digits, - and _, and not local"
        )
    aj("config", "set", "homes.laptop", "/mnt/c")
    assert aj("config", "get", "homes").err == "aj: homes is a table; its keys are homes.laptop\n"


def editor(script: Path, body: str) -> str:
    script.write_text(f"import sys\nfrom pathlib import Path\nfile = Path(sys.argv[1])\n{body}\n")
    return f"{sys.executable} {script}"


def test_edit_opens_the_file_and_checks_it(aj: Aj, tmp_path: Path) -> None:
    good = editor(tmp_path / "good.py", "file.write_text('[search]\\nmax_results = 7\\n')")
    ran = aj.having(EDITOR=good)("config", "edit")
    assert (ran.code, ran.out, ran.err) == (0, f"{FILE} is good\n", "")
    assert aj("config", "get", "search.max_results").out == "7\n"


def test_edit_that_spoils_the_file_says_where_and_keeps_it(aj: Aj, tmp_path: Path) -> None:
    bad = editor(tmp_path / "bad.py", "file.write_text('[search]\\nmax_results = oops\\n')")
    ran = aj.having(EDITOR="false", VISUAL=bad)("config", "edit")
    assert (ran.code, "line 2" in ran.err) == (2, True)
    assert config_file(aj).read_text() == "[search]\nmax_results = oops\n"


def test_edit_without_an_editor_or_with_one_that_fails(aj: Aj) -> None:
    none, failing, absent = (aj.having(EDITOR=e)("config", "edit") for e in ("", "false", "no-such-editor-here"))
    assert [none.code, failing.code, absent.code] == [2, 2, 2]
    assert none.err.startswith("aj: no editor is known: neither VISUAL nor EDITOR is set\n")
    assert failing.err == "aj: the editor false ended with code 1\n"
    assert absent.err.startswith("aj: the editor no-such-editor-here cannot be started: ")
