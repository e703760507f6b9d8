"""Registered handlers: what a consumer group runs, and under which rules."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, TypedDict

from vulkan_orm.consumers.injection import Handler, Injection, inject
from vulkan_orm.core.classify import Treat, check_treat
from vulkan_orm.core.instants import as_delay
from vulkan_orm.core.pace import BATCH, MAX_RANGE
from vulkan_orm.core.policy import RetryPolicy
from vulkan_orm.diagnostics import BAD_OPTION, UsageError
from vulkan_orm.models import NAME_LENGTH
from vulkan_orm.service.codec import Codec, check_name
from vulkan_orm.service.engines import Engines

Isolation = Literal["range", "message"]
DEFAULT_LEASE = timedelta(seconds=60)
MIN_LEASE = timedelta(seconds=1)
MAX_CONCURRENCY = 1000


@dataclass(frozen=True, slots=True)
class Consumer:
    """A handler of one group on one topic. It is still the function: calling it calls that."""

    topic: str
    group: str
    codec: Codec[Any]
    injection: Injection
    policy: RetryPolicy
    lease: float
    isolation: Isolation
    treat: Treat = field(default_factory=dict)
    log_successes: bool = False
    concurrency: int = 1
    max_batch: int = BATCH
    retention: timedelta | None = None

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.group}"


class ConsumerOptions(TypedDict, total=False):
    """The options of a consumer, with what they are unless said.

    - ``retry``: the group's policy; ``RetryPolicy()``.
    - ``treat``: what errors of others mean: ``{CardDeclined: Terminal, Busy: Delay(30)}``.
    - ``lease``: how long a worker may be silent before others take its work over; a minute. It
      is renewed while handlers run.
    - ``isolation``: ``"range"``: many messages commit together, each in a savepoint;
      ``"message"``: a transaction a message. The first, but on a database with one writer the
      second for handlers of single messages with a session.
    - ``log_successes``: whether first runs that simply work get a log row too; no.
    - ``concurrency``: how many messages run at a time in one worker, in threads or tasks; 1.
    - ``max_batch``: how many messages a handler of ``list[Payload]`` gets at once, at most; 1000.
    """

    retry: RetryPolicy
    treat: Treat
    lease: timedelta
    isolation: Isolation
    log_successes: bool
    concurrency: int
    max_batch: int


def register(
    handler: Handler,
    engines: Engines,
    codec: Codec[Any],
    *,
    topic: str,
    group: str,
    retention: timedelta | None,
    options: ConsumerOptions,
) -> Consumer:
    """Checks everything about a handler, now and not when the first message comes.

    :raises UsageError: VK0004 to VK0008, naming what is wrong.
    """
    check_name(group, "group", NAME_LENGTH)
    _check(options)
    injection = inject(handler, codec.kind, async_engine=engines.is_async)
    _check_batch(options, batch=injection.batch)
    return Consumer(
        topic=topic,
        group=group,
        codec=codec,
        injection=injection,
        policy=options.get("retry") or RetryPolicy(),
        lease=as_delay(options.get("lease", DEFAULT_LEASE)).total_seconds(),
        isolation=options.get("isolation") or _default_isolation(engines, injection),
        treat=options.get("treat") or {},
        log_successes=options.get("log_successes", False),
        concurrency=options.get("concurrency", 1),
        max_batch=options.get("max_batch", BATCH),
        retention=retention,
    )


def _check(options: ConsumerOptions) -> None:
    if unknown := sorted(set(options) - ConsumerOptions.__optional_keys__):
        raise UsageError(BAD_OPTION, f"There is no option {unknown[0]!r}.")
    check_treat(options.get("treat") or {})
    lease = options.get("lease", DEFAULT_LEASE)
    if as_delay(lease) < MIN_LEASE:
        raise UsageError(BAD_OPTION, f"lease={lease} is shorter than {MIN_LEASE}.")
    isolation = options.get("isolation")
    if isolation not in (None, "range", "message"):
        raise UsageError(BAD_OPTION, f"isolation={isolation!r} is neither 'range' nor 'message'.")
    if not 1 <= options.get("concurrency", 1) <= MAX_CONCURRENCY:
        raise UsageError(BAD_OPTION, f"concurrency is not from 1 to {MAX_CONCURRENCY}.")
    if not 1 <= options.get("max_batch", 1) <= MAX_RANGE:
        raise UsageError(BAD_OPTION, f"max_batch is not from 1 to {MAX_RANGE}.")


def _check_batch(options: ConsumerOptions, *, batch: bool) -> None:
    if batch and options.get("isolation") == "message":
        raise UsageError(
            BAD_OPTION,
            "isolation='message' is a transaction a message; this handler takes many.",
        )
    if not batch and "max_batch" in options:
        raise UsageError(BAD_OPTION, "max_batch is for handlers that take a list of payloads.")


def _default_isolation(engines: Engines, injection: Injection) -> Isolation:
    # With one writer, a range of writing handlers would keep publishers waiting for all of it.
    writes = injection.session and not injection.batch
    return "message" if engines.dialect.single_writer and writes else "range"
