"""The closed registry of diagnostics: every error of ours has a code, a kind and a remedy."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

_registry: dict[str, "Condition"] = {}
_sealed = False


class Kind(StrEnum):
    """Whether trying again can help. A Permanent error out of a handler is terminal."""

    PERMANENT = "permanent"
    TRANSIENT = "transient"


@dataclass(frozen=True, slots=True)
class Condition:
    """One entry of the registry. The registry is closed: applications cannot add to it."""

    code: str
    kind: Kind
    name: str
    meaning: str
    remedy: str

    def __post_init__(self) -> None:
        if _sealed:
            raise UsageError(
                REGISTRY_CLOSED,
                f"The diagnostic {self.code!r} cannot be registered.",
                code=self.code,
            )
        if self.code in _registry:
            raise ValueError(f"{self.code} is declared twice")
        _registry[self.code] = self

    def __reduce__(self) -> tuple[Callable[[str], "Condition"], tuple[str]]:
        # A copy or an unpickled one is the registered one, so `is` holds.
        return condition, (self.code,)


def condition(code: str) -> Condition:
    """The registered condition of that code.

    :raises KeyError: there is none.
    """
    return _registry[code]


class VulkanError(Exception):
    """The root of our errors: ``condition`` says what, ``data`` holds the particulars."""

    def __init__(self, condition: Condition, detail: str, **data: Any) -> None:
        super().__init__(condition, detail)
        self.condition = condition
        self.detail = detail
        self.data = data

    @property
    def code(self) -> str:
        return self.condition.code

    def __str__(self) -> str:
        return f"{self.code} {self.detail} {self.condition.remedy}".rstrip()


def condition_of(error: object) -> Condition | None:
    """The condition an error carries, if it is ours: a subclass may have lost or replaced it."""
    if not isinstance(error, VulkanError):
        return None
    found = getattr(error, "condition", None)
    return found if isinstance(found, Condition) else None


class UsageError(VulkanError):
    """The library is called or configured in a way it cannot serve."""


class PayloadError(VulkanError):
    """A payload, key or header that cannot be stored and read back unchanged."""


class DecodeError(VulkanError):
    """A stored payload that does not fit the type its topic declares now."""


class DatabaseError(VulkanError):
    """The database is not in a state in which the operation would be safe."""


class HandlerError(VulkanError):
    """A handler broke the contract of its unit of work."""


class StaleClaim(VulkanError):
    """A late report: the run belongs to somebody else by now, and nothing was changed."""


def _permanent(code: str, name: str, meaning: str, remedy: str) -> Condition:
    return Condition(code, Kind.PERMANENT, name, meaning, remedy)


def _transient(code: str, name: str, meaning: str, remedy: str) -> Condition:
    return Condition(code, Kind.TRANSIENT, name, meaning, remedy)


# Usage: topics, groups, registration
UNKNOWN_TOPIC = _permanent(
    "VK0001",
    "unknown topic",
    "A topic was named that nobody declared.",
    "Declare it with vulkan.topic(...), or correct the name.",
)
UNKNOWN_GROUP = _permanent(
    "VK0002",
    "unknown consumer group",
    "A consumer group was named that does not exist on this topic.",
    "Register a consumer for it, or correct the name.",
)
DUPLICATE_NAME = _permanent(
    "VK0003",
    "name taken",
    "A topic or a consumer group was declared twice under one name.",
    "Give the second one another name.",
)
BAD_NAME = _permanent(
    "VK0004",
    "unusable name",
    "A topic or group name is empty, too long or holds control characters.",
    "Use 1 to 200 printable characters.",
)
NOT_INJECTABLE = _permanent(
    "VK0005",
    "parameter cannot be injected",
    "A handler asks for something that is neither the payload, a session nor MessageMeta.",
    "Annotate each parameter with the topic's type, Session or AsyncSession, or MessageMeta.",
)
WRONG_COLOUR = _permanent(
    "VK0006",
    "handler's colour not served",
    "The engine cannot serve this handler: one is sync, the other async.",
    "Use an async engine for async handlers and a sync one for sync handlers.",
)
BAD_OPTION = _permanent(
    "VK0007",
    "unusable option",
    "An option has a value that cannot be honoured.",
    "Correct the value.",
)
BAD_DELAY = _transient(
    "VK0008",
    "unusable delay",
    "A delay or an instant is negative, naive, not a number or beyond what can be stored.",
    "Use a timedelta or seconds from 0 to 100 years, or an aware datetime from 1970 to 9999.",
)
REGISTRY_CLOSED = _permanent(
    "VK0009",
    "registry closed",
    "An application tried to register a diagnostic of its own.",
    "Raise Terminal(...) or Delay(...), or map your error with treat=.",
)
MISSING_EXTRA = _permanent(
    "VK0010",
    "extra not installed",
    "An optional part of the package was used without its libraries.",
    "Install the named extra.",
)
NO_APPLICATION = _permanent(
    "VK0011",
    "application not found",
    "The command could not load the application's Vulkan object.",
    "Pass --app module:object, naming a Vulkan.",
)
BAD_SESSION = _permanent(
    "VK0012",
    "not a session",
    "Something other than a SQLAlchemy Session or AsyncSession was given.",
    "Pass the open session whose transaction the call shall join.",
)

POOL_TOO_SMALL = _permanent(
    "VK0013",
    "connection pool too small",
    "The engine's pool has fewer connections than the consumers' concurrency needs.",
    "Raise pool_size or max_overflow to two connections for each unit of concurrency, or lower it.",
)

# Payloads
UNSERIALISABLE = _permanent(
    "VK0020",
    "payload cannot be stored",
    "A payload, key or header cannot be written as JSON and read back unchanged.",
    "Correct the named field before publishing.",
)
OVERSIZED = _permanent(
    "VK0021",
    "payload too large",
    "A payload is larger than its topic allows.",
    "Publish a reference to the data, or raise max_payload_bytes of the topic.",
)
UNDECODABLE = _transient(
    "VK0022",
    "payload does not fit its type",
    "A stored payload could not be decoded into the type the topic declares.",
    "Deploy code that can read it, then redrive.",
)
BEYOND_RETENTION = _permanent(
    "VK0023",
    "later than the retention",
    "A message asks to be delivered after its topic will have pruned it.",
    "Publish it later, or keep the topic's messages longer.",
)
IDEMPOTENCY_CONFLICT = _transient(
    "VK0024",
    "idempotency key taken meanwhile",
    "Another transaction published the same idempotency key after this one's snapshot.",
    "Run the transaction again.",
)

# Deliveries
STALE_CLAIM = _transient(
    "VK0030",
    "stale claim",
    "An outcome was reported for a run that is no longer the reporter's.",
    "Nothing to do: whoever owns the delivery now reports it.",
)
TRANSACTION_ENDED = _transient(
    "VK0031",
    "handler ended the transaction",
    "A handler committed, rolled back or closed the session it was given.",
    "Leave the transaction to the runner: return to commit, raise to roll back.",
)
SESSION_LEFT_FAILED = _transient(
    "VK0032",
    "session left failed",
    "A handler returned although its session could not be flushed or released.",
    "Let database errors out of the handler, or contain them in session.begin_nested().",
)
NOT_AWAITED = _permanent(
    "VK0033",
    "handler returned an awaitable",
    "A sync handler returned a coroutine that nobody would run.",
    "Declare the handler with async def.",
)
WORKER_LOST = _transient(
    "VK0034",
    "worker lost",
    "A run's lease ended without a word from its worker.",
    "Look for what kills the process: memory, a crash in native code, the operating system.",
)
MESSAGE_PRUNED = _permanent(
    "VK0035",
    "message pruned before it ran",
    "Retention removed the message before its delivery was due.",
    "Keep the topic's messages longer than the longest delay.",
)
BAD_FAILURES = _transient(
    "VK0036",
    "unusable answer of a batch handler",
    "A batch handler told of failures, but not by place in its list of payloads.",
    "Return None, or a mapping of places (from 0) to errors.",
)

# The database
NOT_MIGRATED = _transient(
    "VK0040",
    "database not migrated",
    "The database has no vulkan_orm tables.",
    "Run alembic upgrade head in the host, or vulkan upgrade.",
)
SCHEMA_TOO_OLD = _transient(
    "VK0041",
    "schema too old",
    "The tables are older than this package can work with.",
    "Run alembic upgrade head in the host, or vulkan upgrade.",
)
SCHEMA_TOO_NEW = _transient(
    "VK0042",
    "schema too new",
    "The tables were migrated by a newer version of this package.",
    "Upgrade the package, or downgrade the tables with the version that made them.",
)
OTHER_DATABASE = _permanent(
    "VK0043",
    "session of another database",
    "The session belongs to a database other than this Vulkan's.",
    "Publish with a session of the database the Vulkan was made for.",
)
UNSUPPORTED_DATABASE = _permanent(
    "VK0044",
    "unsupported database",
    "The engine's dialect is not one this package knows.",
    "Use PostgreSQL or SQLite.",
)
SEQUENCE_CACHE = _transient(
    "VK0045",
    "sequence cache",
    "The message id sequence hands out ids in blocks, so their order proves nothing.",
    "Run ALTER SEQUENCE vulkan_message_id_seq CACHE 1.",
)
POSITION_BEYOND_LOG = _transient(
    "VK0046",
    "position beyond the log",
    "A group has read further than the log reaches: the sequence or the data was restored.",
    "Set the sequence above every id handed out before the restore.",
)
ON_STANDBY = _transient(
    "VK0047",
    "read-only standby",
    "The server is in recovery, where what has committed cannot be proven.",
    "Point the worker at the primary.",
)
CONNECTION_SHARED = _transient(
    "VK0049",
    "only one connection",
    "The database is reached by one connection alone, which somebody else may be using.",
    "Use a database file and a pool of connections; in memory only drain, with no session open.",
)

# A handler's voice
DELIVERY_DELAYED = _transient(
    "VK0054",
    "delivery delayed",
    "The handler asked to be run again later.",
    "Nothing to do.",
)
DELIVERY_TERMINAL = _permanent(
    "VK0055",
    "delivery terminal",
    "The handler said that this delivery can never succeed.",
    "Mend the cause, then redrive, or discard.",
)

REGISTRY = MappingProxyType(_registry)
_sealed = True
