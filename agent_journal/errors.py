"""Every error a user can meet, as a sentence they can act on.

JournalError
├── BadQuery            the query cannot be understood; points at the place
├── BadConfig           config.toml or an environment variable is wrong
├── UnreadableSource    one agent's file cannot be read; the run goes on
├── NoSuchSession       an id, prefix or slug that names nothing, or several
├── CannotResume        its agent, its folder or its program is missing
├── JournalBusy         another process is writing
├── JournalUnwritable   no permission, read-only folder, full disk
├── JournalTooNew       written by a later version
├── NoJournal           nothing was indexed yet
├── BadExchange         a file to import or validate that is damaged, or of another kind
├── CannotExport        nothing was chosen, the target is in the way or cannot be written
├── BadModel            a folder that holds no usable embedding model; says what is missing
├── NoSuchModel         a name that no model on this machine has
├── BadBackup           an archive that is no whole backup of a journal
├── CannotBackUp        the archive cannot be written, or is there already
├── JournalExists       a backup would replace a journal
└── JournalCorrupt      journal.db is damaged; says what can be rebuilt
"""


class JournalError(Exception):
    """`kind` and `hint` are part of the --json error contract."""

    kind = "error"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BadQuery(JournalError):
    kind = "bad_query"


class BadConfig(JournalError):
    kind = "bad_config"


class UnreadableSource(JournalError):
    kind = "unreadable_source"


class NoSuchSession(JournalError):
    kind = "no_such_session"


class CannotResume(JournalError):
    kind = "cannot_resume"


class JournalBusy(JournalError):
    kind = "journal_busy"


class JournalUnwritable(JournalError):
    kind = "journal_unwritable"


class JournalTooNew(JournalError):
    kind = "journal_too_new"


class JournalCorrupt(JournalError):
    kind = "journal_corrupt"


class NoJournal(JournalError):
    kind = "no_journal"


class BadExchange(JournalError):
    kind = "bad_exchange"


class CannotExport(JournalError):
    kind = "cannot_export"


class BadModel(JournalError):
    kind = "bad_model"


class NoSuchModel(JournalError):
    kind = "no_such_model"


class BadBackup(JournalError):
    kind = "bad_backup"


class CannotBackUp(JournalError):
    kind = "cannot_backup"


class JournalExists(JournalError):
    kind = "journal_exists"


FULL_DISK = ("no space left", "os error 28", "storagefull", "disk is full", "disk full")


def unreadable_model(path: object, error: OSError) -> BadModel:
    return BadModel(f"{path} cannot be read: {error.strerror or error}")


def unwritable(folder: object, error: Exception) -> JournalUnwritable:
    """SQLite, tantivy and the operating system each say it in their own words."""
    reason = getattr(error, "strerror", None) or str(error)
    if any(words in f"{reason} {error}".lower() for words in FULL_DISK):
        return JournalUnwritable(
            f"{folder}: no space left on the disk", "free some space and run `aj reindex`; nothing is lost"
        )
    return JournalUnwritable(
        f"{folder}: the journal cannot be written ({reason})",
        "give yourself write permission, or set AJ_HOME or storage.index_path to another folder",
    )
