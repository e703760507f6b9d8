"""A payload that its own type no longer takes: one message's failure, whatever was raised."""

from typing import ClassVar

import pytest
from pydantic import BaseModel, field_validator

from tests.conformance.harness import App, at_once


class Parcel(BaseModel):
    """Its validator looks something up, and does not expect not to find it."""

    countries: ClassVar[dict[str, str]] = {}
    country: str

    @field_validator("country")
    @classmethod
    def known(cls, country: str) -> str:
        return cls.countries[country]


def test_a_validator_that_raises_anything_is_its_messages_failed_run(
    app: App, isolation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["at", "be", "dd", "dk", "ee"]
    monkeypatch.setattr(Parcel, "countries", {name: name for name in names})
    parcels = app.vulkan.topic("parcels", Parcel)
    ran: list[str] = []
    app.consumer(
        lambda payload, session, meta: ran.append(payload.country),
        topic=parcels, isolation=isolation, retry=at_once(0),
    )  # fmt: skip
    messages = app.publish_many([Parcel(country=name) for name in names], topic=parcels)
    Parcel.countries.pop("dd")
    assert app.drain() == {"succeeded": 4, "exception": 1}
    assert ran == ["at", "be", "dk", "ee"]
    (entry,) = app.log()
    assert (entry.message_id, entry.error_code) == (messages[2], "VK0022")
    assert app.row(messages[2]).state == "dead"
