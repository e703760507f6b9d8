"""What the consumers of one worker share."""

import itertools
import os
import socket
import time
from dataclasses import dataclass, field
from uuid import uuid4

from vulkan_orm.consumers.gate import Gate
from vulkan_orm.consumers.handlers import Consumer
from vulkan_orm.consumers.leases import Lease, LeaseKeeper
from vulkan_orm.consumers.running import Runner, Tally
from vulkan_orm.consumers.shutdown import Stop
from vulkan_orm.consumers.steps import Rest, Steps
from vulkan_orm.consumers.waking import Waking
from vulkan_orm.consumers.work import Work
from vulkan_orm.service.engines import Engines

GATE_PAUSE = 0.02


def nothing() -> None:
    """What is called where nobody asked to be."""


def _worker_name() -> str:
    # Of this start of the process, not of its host or its number, both of which come again.
    return f"{socket.gethostname()[:80]}:{os.getpid()}:{uuid4().hex[:12]}"


@dataclass(slots=True)
class Worker:
    """One start of a worker: its name, its stop request, its leases."""

    engines: Engines
    stop: Stop
    keeper: LeaseKeeper
    waking: Waking
    #: Whether the next range may be claimed, on a connection of its own, while one runs.
    looks_ahead: bool = False
    name: str = field(default_factory=_worker_name)
    gate: Gate = field(default_factory=Gate)
    #: The work in hand by its owner, so that a stop can give back what a thread does not.
    at_work: dict[str, Work] = field(default_factory=dict)
    _claims: "itertools.count[int]" = field(default_factory=itertools.count)

    def next_owner(self) -> str:
        """A name for one claim, never used for another."""
        return f"{self.name}/{next(self._claims)}"

    def hold(self, consumer: Consumer, work: Work, taken: float, *, ahead: bool = False) -> Lease:
        """Takes claimed work into care, under a lease that has run since ``taken`` (monotonic)."""
        self.at_work[work.owner] = work
        unstarted = work.hand_back if ahead else None
        return self.keeper.hold(work.owner, consumer.lease, taken, unstarted)

    def run(self, consumer: Consumer, work: Work, lease: Lease) -> Steps[Tally]:
        """Runs work that is held."""
        alone = work.careful
        entered = False
        try:
            entered = yield from self._enter(work.owner, alone=alone, patience=consumer.lease)
            return (yield from Runner(consumer, self.engines, self.stop, work, lease).run())
        finally:
            self.gate.leave(work.owner, entered=entered, alone=alone)
            self.release(work, lease)

    def release(self, work: Work, lease: Lease) -> None:
        """Lets go of work that is done, or given back."""
        self.at_work.pop(work.owner, None)
        self.keeper.drop(lease)

    def _enter(self, owner: str, *, alone: bool, patience: float) -> Steps[bool]:
        """Waits until the work may run beside what runs here; False where a stop came first."""
        began = time.monotonic()
        while not self.stop.asked:
            insist = time.monotonic() - began > patience
            if self.gate.enter(owner, alone=alone, insist=insist):
                return True
            yield Rest(GATE_PAUSE)
        return False
