"""Registered handlers: what a consumer group runs, and under which rules."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from vulkan_orm.consumers.injection import Handler, Injection, inject
from vulkan_orm.core.classify import Treat, check_treat
from vulkan_orm.core.instants import as_delay
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
    retention: timedelta | None = None

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.group}"


def register(
    handler: Handler,
    engines: Engines,
    codec: Codec[Any],
    *,
    topic: str,
    group: str,
    retry: RetryPolicy | None,
    treat: Treat | None,
    lease: timedelta | None,
    isolation: Isolation | None,
    log_successes: bool,
    concurrency: int,
    retention: timedelta | None,
) -> Consumer:
    """Checks everything about a handler, now and not when the first message comes.

    :raises UsageError: VK0004 to VK0008, naming what is wrong.
    """
    check_name(group, "group", NAME_LENGTH)
    if treat:
        check_treat(treat)
    injection = inject(handler, codec.kind, async_engine=engines.is_async)
    seconds = as_delay(lease or DEFAULT_LEASE)
    if seconds < MIN_LEASE:
        raise UsageError(BAD_OPTION, f"lease={lease} is shorter than {MIN_LEASE}.")
    if isolation not in (None, "range", "message"):
        raise UsageError(BAD_OPTION, f"isolation={isolation!r} is neither 'range' nor 'message'.")
    if not 1 <= concurrency <= MAX_CONCURRENCY:
        raise UsageError(BAD_OPTION, f"concurrency={concurrency} is not from 1 to 1000.")
    return Consumer(
        topic=topic,
        group=group,
        codec=codec,
        injection=injection,
        policy=retry or RetryPolicy(),
        lease=seconds.total_seconds(),
        isolation=isolation or _default_isolation(engines, injection),
        treat=treat or {},
        log_successes=log_successes,
        concurrency=concurrency,
        retention=retention,
    )


def _default_isolation(engines: Engines, injection: Injection) -> Isolation:
    # With one writer, a range of writing handlers would keep publishers waiting for all of it.
    writes = injection.session is not None
    return "message" if engines.dialect.single_writer and writes else "range"
