from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_journal import config, config_file
from agent_journal.config import Config, Export, Index, Search, Storage, Vector, keys
from agent_journal.errors import BadConfig, JournalUnwritable

AGENTS = {"claude_code": "AJ_CLAUDE_PATH", "copilot_cli": "AJ_COPILOT_PATH", "codex": "AJ_CODEX_PATH"}
NO_SOURCES = {"copilot_cli": (), "claude_code": (), "cursor": (), "aider": (), "codex": ()}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".agent-journal").mkdir(mode=0o700)
    return tmp_path


def file_of(home: Path) -> Path:
    return home / ".agent-journal" / "config.toml"


def loaded(home: Path, text: str | None = None, **environ: str) -> Config:
    if text is not None:
        file_of(home).write_bytes(text.encode())
    return config.load({"HOME": str(home), **environ}, AGENTS)


def refusal(home: Path, text: str) -> str:
    """The error's sentence, after the name of the file."""
    with pytest.raises(BadConfig) as caught:
        loaded(home, text)
    assert file_of(home).read_bytes() == text.encode()
    assert caught.value.message.startswith(str(file_of(home)))
    return caught.value.message.removeprefix(str(file_of(home)))


# --- what is in force -----------------------------------------------------------------------------------


def test_without_a_file_the_defaults_hold_and_nothing_is_written(tmp_path: Path) -> None:
    assert loaded(tmp_path) == Config(
        Storage(tmp_path / ".agent-journal" / "index", (), NO_SOURCES, False, frozenset()),
        Index(writer_memory_mb=64, vector_precision="f16", thinking=True, tool_output_chars=20_000, exclude=()),
        Vector(enabled=True, model_path=tmp_path / ".chats" / "models", fallback="hash"),
        Search(default_mode="hybrid", default_context=3, max_results=20, clip_chars=600),
        Export(default_format="html", html_theme="dark", include_tool_calls=True),
        {},
    )
    assert list(tmp_path.iterdir()) == []


SEED_FILE = """
[storage]
index_path = "~/elsewhere/index"

[storage.sources]
copilot_cli = "~/.copilot-cli/sessions"
claude_code = ["~/.claude/projects", "/mnt/old/claude"]
cursor = "~/.cursor/conversations"      # Platform-specific
aider = "**/.aider.chat.history.md"     # Glob pattern

[index]
lucene_ram_buffer_mb = 128
vector_precision = "f32"
exclude = ["~/private/**"]

[index.vector]
enabled = false
model_path = "models"
fallback = "none"

[search]
default_mode = "lexical"
default_context = 0
max_results = 5

[export]
default_format = "markdown"
html_theme = "auto"
include_tool_calls = false
"""


def test_every_table_of_the_first_design_is_read_with_home_expanded(home: Path) -> None:
    set_there = """storage.index_path storage.sources.copilot_cli storage.sources.claude_code
        storage.sources.cursor storage.sources.aider index.writer_memory_mb index.vector_precision
        index.exclude index.vector.enabled index.vector.model_path index.vector.fallback search.default_mode
        search.default_context search.max_results export.default_format export.html_theme
        export.include_tool_calls"""
    assert loaded(home, SEED_FILE) == Config(
        Storage(
            home / "elsewhere" / "index",
            (),
            {
                "copilot_cli": (f"{home}/.copilot-cli/sessions",),
                "claude_code": (f"{home}/.claude/projects", "/mnt/old/claude"),
                "cursor": (f"{home}/.cursor/conversations",),
                "aider": ("**/.aider.chat.history.md",),
                "codex": (),
            },
        ),
        Index(writer_memory_mb=128, vector_precision="f32", exclude=(f"{home}/private/**",)),
        Vector(enabled=False, model_path=home / ".agent-journal" / "models", fallback="none"),
        Search(default_mode="lexical", default_context=0, max_results=5),
        Export(default_format="markdown", html_theme="auto", include_tool_calls=False),
        {},
        dict.fromkeys(set_there.split(), "file"),
    )


def test_environment_wins_over_the_file_and_replaces_discovery_of_that_agent(home: Path) -> None:
    text = '[storage]\nindex_path = "/from/file"\n[storage.sources]\nclaude_code = "/file"\ncodex = "/kept"\n'
    found = loaded(home, text, AJ_INDEX_PATH="~/env", AJ_CLAUDE_PATH=os.pathsep.join(["~/a", "/b", ""]))
    sources = NO_SOURCES | {"claude_code": (f"{home}/a", "/b"), "codex": ("/kept",)}
    assert found.storage == Storage(home / "env", (), sources, False, frozenset({"claude_code"}))
    assert found.origins == {
        "storage.index_path": "environment AJ_INDEX_PATH",
        "storage.sources.claude_code": "environment AJ_CLAUDE_PATH",
        "storage.sources.codex": "file",
    }
    assert [found.storage.discovers(agent) for agent in ("claude_code", "codex")] == [False, True]


def test_only_turns_discovery_off_for_every_agent(home: Path) -> None:
    storage = loaded(home, "[storage.sources]\nonly = true\n").storage
    assert [storage.only, storage.discovers("claude_code"), storage.discovers("codex")] == [
        True,
        False,
        False,
    ]


def test_empty_environment_variables_count_as_unset(home: Path) -> None:
    assert loaded(home, "", AJ_HOME="", AJ_INDEX_PATH="", AJ_CLAUDE_PATH="", AJ_CODEX_PATH=os.pathsep) == loaded(home)


def test_relative_paths_in_the_environment_start_at_the_current_folder_and_globs_stay(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    found = loaded(home, AJ_INDEX_PATH="here", AJ_CLAUDE_PATH="logs", AJ_CODEX_PATH="**/*.jsonl").storage
    sources = NO_SOURCES | {"claude_code": (str(home / "logs"),), "codex": ("**/*.jsonl",)}
    assert (found.index_path, found.sources) == (home / "here", sources)


def test_aj_home_moves_file_and_index(tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    (tmp_path / "moved" / "config.toml").write_text("search.max_results = 7\n")
    environ = {"HOME": str(tmp_path), "AJ_HOME": "~/moved"}
    assert config.journal_home(environ) == tmp_path / "moved"
    assert config.journal_home({"HOME": "/h"}) == Path("/h/.agent-journal")
    assert config.config_path(environ) == tmp_path / "moved" / "config.toml"
    found = config.load(environ, AGENTS)
    assert (found.storage.index_path, found.search.max_results) == (tmp_path / "moved" / "index", 7)
    assert found.origins == {"storage.index_path": "environment AJ_HOME", "search.max_results": "file"}


def test_agents_without_a_connector_yet_may_be_configured(home: Path) -> None:
    file_of(home).write_text('[storage.sources]\ncursor = "/c"\naider = "/a"\n')
    assert config.load({"HOME": str(home)}).storage.sources == {
        "copilot_cli": (),
        "claude_code": (),
        "cursor": ("/c",),
        "aider": ("/a",),
    }


def test_one_path_may_stand_for_a_list_of_one(home: Path) -> None:
    found = loaded(home, '[storage]\nroots = "~/code"\n[index]\nexclude = "~/private"\n')
    assert (found.storage.roots, found.index.exclude) == ((f"{home}/code",), (f"{home}/private",))


def test_file_saved_by_a_windows_editor_is_read(home: Path) -> None:
    assert loaded(home, "\ufeff[search]\r\nmax_results = 9\r\n").search.max_results == 9


# --- refusals -------------------------------------------------------------------------------------------

TABLES = "[storage], [storage.sources], [homes], [index], [index.vector], [search], [export]"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[search]\n\nmax_result = 3\n",
            ", line 3: unknown key search.max_result; did you mean search.max_results?",
        ),
        (
            "[search]\ninclude_tool_calls = true\n",
            ", line 2: unknown key search.include_tool_calls; did you mean export.include_tool_calls?",
        ),
        ("max_results = 3\n", ", line 1: unknown key max_results; did you mean search.max_results?"),
        (
            "[search]\nzzz = 3\n",
            ", line 2: unknown key search.zzz; [search] has default_mode, default_context, max_results, clip_chars",
        ),
        ("zzz = 3\n", f", line 1: unknown key zzz; the tables are {TABLES}"),
        (
            '[storage.sources]\nclaude-code = "/x"\n',
            ", line 2: unknown key storage.sources.claude-code; did you mean storage.sources.claude_code?",
        ),
        (
            '["search.max_results"]\na = 1\n',
            f', line 1: unknown table ["search.max_results"]; the tables are {TABLES}',
        ),
        (
            '"search.max_results" = 1\n',
            ', line 1: unknown key "search.max_results"; did you mean search.max_results?',
        ),
        ("[search]\n[serch]\n", ", line 2: unknown table [serch]; did you mean [search]?"),
        ("[vector]\nenabled = true\n", ", line 1: unknown table [vector]; did you mean [index.vector]?"),
        ("[index.vectors]\n", ", line 1: unknown table [index.vectors]; did you mean [index.vector]?"),
        ("[weather]\n", f", line 1: unknown table [weather]; the tables are {TABLES}"),
        ("search = 3\n", ", line 1: search must be a table, [search], not 3"),
        ("[[search]]\n", ", line 1: search must be a table, [search], not [{}]"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest_right_one(home: Path, text: str, sentence: str) -> None:
    assert refusal(home, text) == sentence


PATTERNS = "a path, a glob or a list of them"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            '[search]\nmax_results = "20"\n',
            ', line 2: search.max_results must be a whole number from 1 to 10000, not "20"',
        ),
        (
            "[search]\nmax_results = true\n",
            ", line 2: search.max_results must be a whole number from 1 to 10000, not true",
        ),
        (
            "[search]\nmax_results = 2.5\n",
            ", line 2: search.max_results must be a whole number from 1 to 10000, not 2.5",
        ),
        (
            "search.default_context = -1\n",
            ", line 1: search.default_context must be a whole number from 0 to 1000, not -1",
        ),
        (
            "[index]\nwriter_memory_mb = 8\n",
            ", line 2: index.writer_memory_mb must be a whole number from 15 to 4095, not 8",
        ),
        (
            "[index]\n# old\nlucene_ram_buffer_mb = 8\n",
            ", line 3: index.lucene_ram_buffer_mb must be a whole number from 15 to 4095, not 8",
        ),
        (
            "[index]\nlucene_ram_buffer_mb = 64\nwriter_memory_mb = 64\n",
            ", line 3: index.lucene_ram_buffer_mb is the old name of index.writer_memory_mb; keep one of them",
        ),
        (
            '[search]\ndefault_mode = "Hybird"\n',
            ', line 2: search.default_mode must be one of hybrid, lexical, semantic, not "Hybird"',
        ),
        ("[export]\nhtml_theme = 1\n", ", line 2: export.html_theme must be one of dark, light, auto, not 1"),
        (
            '[export]\nhtml_theme = "pink"\n',
            ', line 2: export.html_theme must be one of dark, light, auto, not "pink"',
        ),
        ("[index.vector]\nenabled = 1\n", ", line 2: index.vector.enabled must be true or false, not 1"),
        ("[storage]\nindex_path = []\n", ", line 2: storage.index_path must be a path, not []"),
        ('[storage]\nindex_path = " "\n', ', line 2: storage.index_path must be a path, not " "'),
        (
            '[storage]\nindex_path = "a\\u0000"\n',
            ', line 2: storage.index_path must be a path, not "a\\u0000"',
        ),
        (
            '[index]\nexclude = [\n  "a",\n  3,\n]\n',
            f', line 2: index.exclude must be {PATTERNS}, not ["a", 3]',
        ),
        (
            "[index]\nexclude = 2024-01-01\n",
            f', line 2: index.exclude must be {PATTERNS}, not "2024-01-01"',
        ),
        (
            '[storage.sources.claude_code]\npath = "/x"\n',
            f', line 1: storage.sources.claude_code must be {PATTERNS}, not {{"path": "/x"}}',
        ),
        (
            'storage = { index_path = "/x", sources = { codex = 3 } }\n',
            f", line 1: storage.sources.codex must be {PATTERNS}, not 3",
        ),
    ],
)
def test_wrong_values_are_refused_with_what_is_accepted(home: Path, text: str, sentence: str) -> None:
    assert refusal(home, text) == sentence


def test_file_that_is_not_toml_is_refused_with_its_line(home: Path) -> None:
    expected = ", line 2: not valid TOML: Expected '=' after a key in a key/value pair (column 13)"
    assert refusal(home, "[search]\nmax_results 20\n") == expected


def test_file_that_ends_too_early_is_refused_with_its_last_line(home: Path) -> None:
    assert re.fullmatch(r", line 3: not valid TOML: \w.*", refusal(home, '[index]\nexclude = [\n  "a",\n'))


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a = " + "9" * 5000])
def test_absurd_nesting_and_numbers_are_refused_not_crashes(home: Path, text: str) -> None:
    assert refusal(home, text) != ""


def test_file_that_is_not_utf8_is_refused_with_its_line(home: Path) -> None:
    file_of(home).write_bytes(b"[search]\n# caf\xe9\n")
    with pytest.raises(BadConfig) as caught:
        loaded(home)
    assert caught.value.message == f"{file_of(home)}, line 2: not UTF-8 (byte 0xe9); save the file as UTF-8"


def test_folder_or_pipe_in_place_of_the_file_is_refused(home: Path) -> None:
    file_of(home).mkdir()
    with pytest.raises(BadConfig) as caught:
        loaded(home)
    assert caught.value.message == f"{file_of(home)} is a folder; it must be a file"
    file_of(home).rmdir()
    os.mkfifo(file_of(home))
    with pytest.raises(BadConfig) as caught:
        loaded(home)
    assert caught.value.message == f"{file_of(home)} is a pipe; it must be a file"


def test_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".agent-journal").write_text("")
    with pytest.raises(BadConfig) as caught:
        loaded(tmp_path)
    assert caught.value.message == f"{file_of(tmp_path)} cannot be read: Not a directory"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="this user may read everything")
def test_file_without_read_permission_is_refused(home: Path) -> None:
    file_of(home).write_text("")
    file_of(home).chmod(0)
    with pytest.raises(BadConfig) as caught:
        loaded(home)
    assert caught.value.message == f"{file_of(home)} cannot be read: Permission denied"


# --- lines ----------------------------------------------------------------------------------------------

HARD_TO_SCAN = '''\
# [search]
note = """
[search]
max_results = 1 """
"quoted.name".'x' = [ # ]
  "]", [1,
  2], ']"'
]
[ index . "vector" ] # enabled = false
enabled = true
storage.sources = { cursor = "a" }
'''


def test_lines_are_right_past_comments_strings_and_brackets() -> None:
    document = config_file.Document(Path("config.toml"), HARD_TO_SCAN, tomllib.loads(HARD_TO_SCAN))
    asked = [
        ("note",),
        ("quoted.name", "x"),
        ("index",),
        ("index", "vector"),
        ("index", "vector", "enabled"),
        ("index", "vector", "storage", "sources", "cursor"),
        ("search", "max_results"),
    ]
    assert [document.line_of(key) for key in asked] == [2, 5, 9, 9, 10, 11, 1]


NAMES = st.text("ab.#\"'[]= ", min_size=1, max_size=4)
VALUES = st.sampled_from(["1", '"#"', "'['", "[\n 1, # ]\n 2]", '"""\n[a]\nb = 1\n"""', "'''\n'\n'''", "{ a = 1 }"])


@given(
    st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES, max_size=4), max_size=4),
    st.sampled_from(["", "\n", "# x\n"]),
)
def test_line_of_any_key_is_the_line_it_was_written_on(tables: dict[str, dict[str, str]], between: str) -> None:
    text = ""
    lines: dict[tuple[str, ...], int] = {}
    for table, values in tables.items():
        text += between
        lines[(table,)] = text.count("\n") + 1
        text += f"[{config_file.literal(table)}]\n"
        for key, value in values.items():
            text += between
            lines[(table, key)] = text.count("\n") + 1
            text += f"{config_file.literal(key)} = {value}\n"
    document = config_file.Document(Path("config.toml"), text, tomllib.loads(text))
    assert {key: document.line_of(key) for key in lines} == lines


# --- get, show, keys ------------------------------------------------------------------------------------


def test_values_are_read_by_dotted_key(home: Path) -> None:
    found = loaded(home, SEED_FILE)
    assert [
        config.get_value(found, key)
        for key in (
            "search.max_results",
            "storage.index_path",
            "storage.sources.claude_code",
            "storage.sources.codex",
            "storage.sources.only",
            "index.vector.enabled",
            "index.lucene_ram_buffer_mb",
        )
    ] == [
        5,
        f"{home}/elsewhere/index",
        (f"{home}/.claude/projects", "/mnt/old/claude"),
        (),
        False,
        False,
        128,
    ]


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("search.max_result", "unknown key search.max_result; did you mean search.max_results?"),
        ("max_results", "unknown key max_results; did you mean search.max_results?"),
        ("", f'unknown key ""; the tables are {TABLES}'),
        (
            "export",
            "export is a table; its keys are export.default_format, export.html_theme, export.include_tool_calls",
        ),
    ],
)
def test_asking_for_an_unknown_key_names_the_nearest(home: Path, key: str, sentence: str) -> None:
    with pytest.raises(BadConfig) as caught:
        config.get_value(loaded(home), key)
    assert caught.value.message == sentence


def test_dump_gives_effective_values_as_the_file_would(home: Path) -> None:
    assert config.dump(loaded(home, "[search]\nmax_results = 5\n", AJ_CODEX_PATH="/c")) == {
        "storage": {
            "index_path": f"{home}/.agent-journal/index",
            "roots": [],
            "sources": {
                "copilot_cli": [],
                "claude_code": [],
                "cursor": [],
                "aider": [],
                "codex": ["/c"],
                "only": False,
            },
        },
        "index": {
            "writer_memory_mb": 64,
            "vector_precision": "f16",
            "thinking": True,
            "tool_output_chars": 20000,
            "exclude": [],
            "vector": {
                "enabled": True,
                "model": "",
                "model_path": f"{home}/.chats/models",
                "threads": 0,
                "thinking": True,
                "tool_input": True,
                "tool_output": False,
                "fallback": "hash",
            },
        },
        "search": {"default_mode": "hybrid", "default_context": 3, "max_results": 5, "clip_chars": 600},
        "export": {"default_format": "html", "html_theme": "dark", "include_tool_calls": True},
    }


def test_origins_name_every_key(home: Path) -> None:
    found = loaded(home, "[search]\nmax_results = 5\n", AJ_CODEX_PATH="/c")
    expected = {s.key: "default" for s in keys(AGENTS)}
    expected |= {"search.max_results": "file", "storage.sources.codex": "environment AJ_CODEX_PATH"}
    assert config.origins(found) == expected


def test_every_key_has_a_type_and_one_sentence_of_help() -> None:
    settings = keys(AGENTS)
    assert len({s.key for s in settings}) == len(settings)
    assert [s.key for s in settings if not re.fullmatch(r"\S.*[.\]]", s.help) or "\n" in s.help or not s.type] == []
    assert {s.key: s.default for s in settings}["storage.index_path"] == "~/.agent-journal/index"


# --- set ------------------------------------------------------------------------------------------------

COMMENTED = """\
# mine
[search] # how I search
max_results = 20    # enough
default_mode = 'lexical'

# for the blog
[export]
html_theme = "light"
"""


def after_set(path: Path, key: str, text: str) -> str:
    config.set_value(path, key, text, AGENTS)
    return path.read_bytes().decode()


def test_set_changes_one_value_and_keeps_comments_order_and_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(COMMENTED)
    assert after_set(path, "search.max_results", "30") == COMMENTED.replace("= 20 ", "= 30 ")


def test_set_of_a_new_key_goes_below_its_table_not_below_the_next_ones_comment(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(COMMENTED)
    expected = COMMENTED.replace("'lexical'\n", "'lexical'\ndefault_context = 0\n")
    assert after_set(path, "search.default_context", "0") == expected


def test_set_in_the_example_goes_below_the_default_it_replaces(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    config.init(path)
    expected = config.example_text().replace("#max_results = 20\n", "#max_results = 20\nmax_results = 30\n")
    assert after_set(path, "search.max_results", "30") == expected


def test_set_makes_file_folder_and_table_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.toml"
    assert after_set(path, "index.vector.enabled", "false") == "[index.vector]\nenabled = false\n"
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (path, path.parent)]
    assert modes == [0o600, 0o700]
    assert list(path.parent.iterdir()) == [path]


def test_set_tightens_the_mode_of_a_readable_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("")
    path.chmod(0o644)
    after_set(path, "search.max_results", "3")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("key", "text", "value", "line"),
    [
        ("search.max_results", " 30 ", 30, "max_results = 30"),
        ("index.thinking", "False", False, "thinking = false"),
        ("search.default_mode", "semantic", "semantic", 'default_mode = "semantic"'),
        ("storage.index_path", '~/a "b"\\c', '~/a "b"\\c', 'index_path = "~/a \\"b\\"\\\\c"'),
        ("storage.index_path", "a\x7f\n[x]", "a\x7f\n[x]", 'index_path = "a\\u007f\\n[x]"'),
        ("index.exclude", "~/a, b/**,", ("~/a", "b/**"), 'exclude = ["~/a", "b/**"]'),
        ("index.exclude", "['a,b', 'c']", ("a,b", "c"), 'exclude = ["a,b", "c"]'),
        ("index.exclude", "", (), "exclude = []"),
        ("storage.sources.aider", "**/*.md", ("**/*.md",), 'aider = "**/*.md"'),
        ("storage.sources.codex", "/a,/b", ("/a", "/b"), 'codex = ["/a", "/b"]'),
        ("index.lucene_ram_buffer_mb", "32", 32, "writer_memory_mb = 32"),
    ],
)
def test_set_reads_the_text_by_the_keys_type(
    tmp_path: Path, key: str, text: str, value: config.Value, line: str
) -> None:
    path = tmp_path / "config.toml"
    assert config.set_value(path, key, text, AGENTS) == value
    assert path.read_text().split("\n", 1)[1] == line + "\n"


@pytest.mark.parametrize(
    ("key", "text", "sentence"),
    [
        ("search.max_result", "3", "unknown key search.max_result; did you mean search.max_results?"),
        ("search.max_results", "0", "search.max_results must be a whole number from 1 to 10000, not 0"),
        (
            "search.max_results",
            "many",
            'search.max_results must be a whole number from 1 to 10000, not "many"',
        ),
        ("index.thinking", "yes", 'index.thinking must be true or false, not "yes"'),
        ("index.vector_precision", "f8", 'index.vector_precision must be one of f16, f32, not "f8"'),
        ("storage.index_path", "", 'storage.index_path must be a path, not ""'),
        ("storage.index_path", "\udcff", "storage.index_path must be valid Unicode"),
        ("index.exclude", "[a", '"[a" is not a TOML list; write ["one", "two"]'),
        ("index.exclude", "[1]", f"index.exclude must be {PATTERNS}, not [1]"),
    ],
)
def test_set_refuses_before_writing(tmp_path: Path, key: str, text: str, sentence: str) -> None:
    with pytest.raises(BadConfig) as caught:
        config.set_value(tmp_path / "config.toml", key, text, AGENTS)
    assert caught.value.message == sentence
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[search\n", ", line 1: not valid TOML: Expected ']' at the end of a table declaration (column 8)"),
        ("search = 3\n", ", line 1: search must be a table, [search]"),
    ],
)
def test_set_leaves_a_file_it_cannot_change_as_it_was(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(BadConfig) as caught:
        config.set_value(path, "search.max_results", "3")
    assert (caught.value.message, path.read_text()) == (f"{path}{sentence}", text)
    assert list(tmp_path.iterdir()) == [path]


def test_set_repairs_a_wrong_value_although_the_file_does_not_load(home: Path) -> None:
    file_of(home).write_text('[search]\nmax_results = "many" # hm\n')
    assert after_set(file_of(home), "search.max_results", "3") == "[search]\nmax_results = 3 # hm\n"
    assert loaded(home).search.max_results == 3


def test_set_uses_the_old_name_where_the_file_does(home: Path) -> None:
    file_of(home).write_text("[index]\nlucene_ram_buffer_mb = 64\n")
    assert after_set(file_of(home), "index.writer_memory_mb", "32") == "[index]\nlucene_ram_buffer_mb = 32\n"
    assert loaded(home).index.writer_memory_mb == 32


def test_set_keeps_windows_line_ends_and_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes("\ufeff[search]\r\nmax_results = 1\r\n# é\r\n".encode())
    assert after_set(path, "search.clip_chars", "50") == (
        "\ufeff[search]\r\nmax_results = 1\r\nclip_chars = 50\r\n# é\r\n"
    )


def test_set_through_a_link_changes_the_file_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    real, link = tmp_path / "dotfiles" / "aj.toml", tmp_path / "config.toml"
    real.write_text("[search]\n")
    link.symlink_to(real)
    assert after_set(link, "search.max_results", "3") == "[search]\nmax_results = 3\n"
    assert (link.is_symlink(), real.read_text()) == (True, "[search]\nmax_results = 3\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[storage]\nsources.codex = '/a'\n", "[storage]\nsources.codex = '/a'\nsources.cursor = \"/c\"\n"),
        ("storage = { roots = [] }\n", 'storage = { roots = [], sources = {cursor = "/c"}}\n'),
        ("storage.sources.cursor = '/old' # x\n", 'storage.sources.cursor = "/c" # x\n'),
    ],
)
def test_set_in_dotted_keys_and_inline_tables_keeps_every_other_value(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    assert after_set(path, "storage.sources.cursor", "/c") == expected


def test_set_where_the_folder_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalUnwritable) as caught:
        config.init(tmp_path / "file" / "config.toml")
    assert caught.value.message == f"{tmp_path / 'file'} cannot be made a folder: File exists"


SETTABLE = [
    ("search.max_results", "7"),
    ("index.exclude", "a,b"),
    ("storage.sources.cursor", "/c"),
    ("index.thinking", "false"),
]


@given(
    st.lists(st.sampled_from(SETTABLE), max_size=6),
    st.sampled_from(["", COMMENTED, SEED_FILE, config.example_text()]),
)
def test_any_sequence_of_sets_changes_only_those_keys(
    tmp_path_factory: pytest.TempPathFactory, sets: list[tuple[str, str]], text: str
) -> None:
    path = tmp_path_factory.mktemp("set") / "config.toml"
    path.write_text(text)
    expected = tomllib.loads(text)
    written = {"7": 7, "a,b": ["a", "b"], "/c": "/c", "false": False}
    for key, value in sets:
        config.set_value(path, key, value)
        *tables, name = key.split(".")
        place = expected
        for table in tables:
            place = place.setdefault(table, {})
        place[name] = written[value]
    after = path.read_text()
    assert tomllib.loads(after) == expected
    assert [c for c in re.findall(r"#.*", text) if c not in after] == []


# --- the example ----------------------------------------------------------------------------------------

ROOT_EXAMPLE = Path(__file__).parents[1] / "config.example.toml"


def test_example_in_the_repository_is_the_one_init_writes(tmp_path: Path) -> None:
    config.init(tmp_path / "new" / "config.toml")
    written = (tmp_path / "new" / "config.toml").read_text(encoding="utf-8")
    assert written == config.example_text() == ROOT_EXAMPLE.read_text(encoding="utf-8")
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "new", tmp_path / "new" / "config.toml")]
    assert modes == [0o700, 0o600]


def test_example_as_it_stands_changes_nothing(home: Path) -> None:
    assert loaded(home) == loaded(home, config.example_text())


def test_example_with_its_comment_marks_removed_gives_every_default(home: Path) -> None:
    bare = config.load({"HOME": str(home)})
    file_of(home).write_text(re.sub(r"(?m)^#(?=\w)", "", config.example_text()))
    found = config.load({"HOME": str(home)})
    assert found.storage.sources == {
        "copilot_cli": (f"{home}/.copilot-cli/sessions",),
        "claude_code": (f"{home}/.claude/projects",),
        "cursor": (f"{home}/.cursor/conversations",),
        "aider": ("**/.aider.chat.history.md",),
    }
    expected = config.dump(bare)
    expected["storage"]["sources"] |= {key: list(value) for key, value in found.storage.sources.items()}
    expected["homes"] = {"laptop": "/mnt/c/Users/me"}
    assert config.dump(found) == expected
    assert found.origins == dict.fromkeys((*(setting.key for setting in keys()), "homes.laptop"), "file")


def test_other_homes_have_names_of_the_users_choice(home: Path) -> None:
    found = loaded(home, '[homes]\nlaptop = "/mnt/c/Users/ana"\nold = "~/backup"\n')
    assert found.homes == {"laptop": Path("/mnt/c/Users/ana"), "old": home / "backup"}
    assert config.get_value(found, "homes.old") == f"{home}/backup"
    with pytest.raises(BadConfig, match=r"no homes.new is set; the homes are local, laptop, old"):
        config.get_value(found, "homes.new")


@pytest.mark.parametrize("label", ["local", "Laptop", '"a b"'])
def test_a_homes_name_is_plain_and_not_local(home: Path, label: str) -> None:
    with pytest.raises(BadConfig, match=r"line 2: .*a home's name is of small letters, digits, - and _, and not local"):
        loaded(home, f'[homes]\n{label} = "/x"\n')


def test_init_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("mine")
    with pytest.raises(BadConfig) as caught:
        config.init(path)
    assert caught.value.message == (f"{path} already exists; edit it, or change one key with `aj config set KEY VALUE`")
    assert path.read_text() == "mine"


@pytest.mark.parametrize(("file", "loads"), [(None, []), ("[search]\nmax_results = 3\n", ["tomllib"])])
def test_reading_the_configuration_never_loads_the_slow_toml_writer(
    home: Path, file: str | None, loads: list[str]
) -> None:
    if file is not None:
        file_of(home).write_text(file)
    program = (
        "import sys; from agent_journal.config import load; load({'HOME': sys.argv[1]}); "
        "print(sorted({'tomllib', 'tomlkit', 'difflib'} & sys.modules.keys()))"
    )
    ran = subprocess.run([sys.executable, "-c", program, home], capture_output=True, text=True, check=True)
    assert ran.stdout == f"{loads}\n"
