"""What a type checker makes of the public surface. Not run: read by mypy, see test_typing.py.

Strict mode refuses an ignore that nothing needs, so each one here says: this is an error.
"""

from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_type

from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from vulkan_orm import (
    Delay,
    DeliveryRepository,
    Draft,
    MessageMeta,
    RetryPolicy,
    Terminal,
    Topic,
    Vulkan,
)
from vulkan_orm.aio import AsyncDeliveryRepository
from vulkan_orm.models import ExceptionQueue


@dataclass
class Payment:
    amount: int


@dataclass
class Parcel:
    weight: float


vulkan = Vulkan("sqlite://")
payments = vulkan.topic("payments", Payment, retention=timedelta(days=7))
assert_type(payments, Topic[Payment])


def publishing(session: Session, scoped: scoped_session[Session]) -> None:
    assert_type(payments.publish(session, Payment(1)), int)
    assert_type(payments.publish(scoped, Payment(1), key="order-17"), int)
    assert_type(payments.publish_many(session, [Payment(1), Draft(Payment(2), key="b")]), list[int])

    payments.publish(session, Parcel(1.0))  # type: ignore[call-overload]
    payments.publish(session, {"amount": 1})  # type: ignore[call-overload]
    payments.publish(session, Payment(1), kee="order-17")  # type: ignore[call-overload]
    payments.publish(session, Payment(1), key=17)  # type: ignore[call-overload]
    payments.publish_many(session, [Parcel(1.0)])  # type: ignore[list-item]
    payments.publish_many(session, Payment(1))  # type: ignore[call-overload]


async def publishing_async(
    session: AsyncSession, scoped: async_scoped_session[AsyncSession]
) -> None:
    assert_type(payments.publish(session, Payment(1)), Awaitable[int])
    assert_type(await payments.publish(session, Payment(1)), int)
    assert_type(await payments.publish(scoped, Payment(1)), int)
    assert_type(await payments.publish_many(session, [Payment(1)]), list[int])

    await payments.publish(session, Parcel(1.0))  # type: ignore[call-overload]
    payments.publish(session, Payment(1)) + 1  # type: ignore[operator]


@payments.consumer(group="billing", retry=RetryPolicy(max_retries=5))
def charge(payment: Payment, session: Session, meta: MessageMeta) -> str:
    if meta.attempts:
        raise Delay(timedelta(minutes=5))
    if payment.amount > 100:
        raise Terminal("too much")
    return "charged"


@payments.consumer(group="mailing")
async def mail(payment: Payment) -> None:
    """A handler of the other colour."""


async def a_decorated_handler_keeps_its_type(session: Session, meta: MessageMeta) -> None:
    assert_type(charge(Payment(1), session, meta), str)
    assert_type(await mail(Payment(1)), None)

    charge(Parcel(1.0), session, meta)  # type: ignore[arg-type]
    charge(Payment(1))  # type: ignore[call-arg]


def meta_is_read_only(meta: MessageMeta) -> None:
    meta.attempts = 1  # type: ignore[misc]


def policies_are_checked() -> None:
    RetryPolicy(max_retries="5")  # type: ignore[arg-type]
    RetryPolicy(retries=5)  # type: ignore[call-arg]
    RetryPolicy().max_retries = 6  # type: ignore[misc]
    Delay("soon")  # type: ignore[arg-type]
    Terminal(17)  # type: ignore[arg-type]


def the_repository(repository: DeliveryRepository) -> None:
    assert_type(repository.dead("payments", "billing"), list[ExceptionQueue])
    assert_type(repository.redrive("payments", "billing", 17), list[int])
    assert_type(repository.lag("payments", "billing").total, int)


async def the_async_repository(repository: AsyncDeliveryRepository) -> None:
    assert_type(await repository.dead("payments", "billing"), list[ExceptionQueue])
    assert_type(await repository.redrive("payments", "billing", [17]), list[int])


def the_models(row: ExceptionQueue) -> None:
    assert_type(row.spent, int)
    assert_type(row.attempts, int)
    assert_type(row.last_error, str | None)
