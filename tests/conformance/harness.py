"""One application for every database and colour: what a behaviour test says, both of them do.

A test writes handlers and transactions once, as functions on a sync Session. For the async colour
the harness makes `async def` handlers with an AsyncSession, awaited calls and a loop of its own.
"""

from collections.abc import Callable

from tests.conformance.application import AT_ONCE, GROUP, PATIENCE, TOPIC, App, Job, at_once
from tests.conformance.colours import AsyncApp, SyncApp, async_url
from tests.databases import Database

__all__ = [
    "APPS",
    "AT_ONCE",
    "GROUP",
    "PATIENCE",
    "TOPIC",
    "App",
    "AsyncApp",
    "Job",
    "SyncApp",
    "async_url",
    "at_once",
]

APPS: dict[str, Callable[[Database], App]] = {"sync": SyncApp, "async": AsyncApp}
