"""The host application's own tables."""

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Host(DeclarativeBase):
    """What the host declares, apart from ours."""


class Effect(Host):
    """A business row that a handler, or a publisher, writes."""

    __tablename__ = "effects"

    id: Mapped[int] = mapped_column(primary_key=True)
    value: Mapped[str] = mapped_column(String(200))


class Account(Host):
    """What a booking needs by the time its transaction commits."""

    __tablename__ = "accounts"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


class Booking(Host):
    """Refused at COMMIT, and not before, while its account is missing."""

    __tablename__ = "bookings"

    id: Mapped[int] = mapped_column(primary_key=True)
    account_id: Mapped[int] = mapped_column(
        ForeignKey(Account.id, deferrable=True, initially="DEFERRED")
    )
