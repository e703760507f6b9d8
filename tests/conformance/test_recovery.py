"""Runs whose worker died: who is charged, who is not, and that everything goes on."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from tests.conformance.harness import App, Job, at_once
from vulkan_orm import MessageMeta
from vulkan_orm.core.outcomes import Succeeded
from vulkan_orm.models import ExceptionQueue, RangeClaim
from vulkan_orm.service.deliveries import Delivery
from vulkan_orm.service.watermark import Watermark

LEASE = 5.0


def failing(payload: Job, session: Session, meta: MessageMeta) -> None:
    raise ValueError("always")


def waiting(app: App, amount: int, *, retries: int = 2) -> list[int]:
    """Deliveries that failed once and are due in a minute; then a minute passes."""
    app.consumer(failing, retry=at_once(retries).model_copy(update={"backoff_base": MINUTE}))
    messages = app.publish_many([Job(name=str(n)) for n in range(amount)])
    assert app.drain() == {"exception": amount}
    app.pass_time(61)
    return messages


MINUTE = timedelta(minutes=1)


def claim(app: App, owner: str, *, retries: int = 2) -> Sequence[Delivery]:
    """What a worker claims that then dies."""
    found: Sequence[Delivery] = app.repo(
        "claim_due", app.group(), at_once(retries), owner, limit=100, lease=LEASE
    )
    return found


def careful(app: App) -> None:
    """Makes every row one that is claimed alone."""
    app.in_transaction(lambda session: session.execute(update(ExceptionQueue).values(careful=True)))


def test_a_run_whose_lease_has_not_ended_is_nobodys_to_take_back(app: App) -> None:
    """R16."""
    (message,) = waiting(app, 1)
    claim(app, "dead worker")
    assert app.repo("recover") == 0
    app.pass_time(LEASE - 1)
    assert app.repo("recover") == 0
    assert app.row(message).state == "running"


def test_a_run_that_was_alone_when_its_lease_ended_was_killed_and_that_is_charged(app: App) -> None:
    """R16, R16a: logged at recovery under its number, and spends budget like a failure."""
    (message,) = waiting(app, 1)
    careful(app)
    claim(app, "dead worker")
    app.pass_time(LEASE + 1)
    assert app.repo("recover") == 1
    row = app.row(message)
    assert (row.state, row.attempts, row.delays, row.spent) == ("ready", 2, 0, 2)
    assert row.owner is None
    assert "worker lost" in (row.last_error or "")
    assert app.story(message) == [(1, "exception"), (2, "killed")]
    assert app.log(message)[1].error_code == "VK0034"
    assert app.repo("recover") == 0


def test_a_killed_run_may_be_the_last_and_the_next_claim_buries_it(app: App) -> None:
    """R16: recovery needs no policy; a worker of the group judges the budget."""
    (message,) = waiting(app, 1, retries=1)
    careful(app)
    claim(app, "dead worker", retries=1)
    app.pass_time(LEASE + 1)
    assert app.drain() == {}
    row = app.row(message)
    assert (row.state, row.attempts, row.spent) == ("dead", 2, 2)
    assert row.payload == {"name": "0", "amount": None}
    assert app.story(message) == [(1, "exception"), (2, "killed"), (None, "dead")]


def test_a_crash_loop_ends(app: App) -> None:
    """R16, C04."""
    (message,) = waiting(app, 1, retries=3)
    careful(app)
    claims = 0
    while claim(app, f"worker {claims}", retries=3):
        claims += 1
        app.pass_time(LEASE + 1)
        app.repo("recover")
    assert claims == 3
    assert app.row(message).state == "dead"
    assert app.story(message)[1:-1] == [(2, "killed"), (3, "killed"), (4, "killed")]
    assert app.story(message)[-1] == (None, "dead")


def test_of_a_batch_that_was_lost_nobody_is_charged_and_each_runs_alone_next(app: App) -> None:
    """R16a."""
    messages = waiting(app, 3)
    assert len(claim(app, "dead worker")) == 3
    app.pass_time(LEASE + 1)
    assert app.repo("recover") == 3
    for message in messages:
        row = app.row(message)
        assert (row.state, row.attempts, row.spent) == ("ready", 2, 1)
        assert (row.delays, row.interruptions, row.careful) == (1, 1, True)
        assert app.story(message) == [(1, "exception"), (2, "interrupted")]
    for index, message in enumerate(messages):
        (alone,) = claim(app, f"second {index}")
        assert alone.message_id == message


def test_a_careful_retry_runs_alone_in_its_turn_and_keeps_nobody_waiting(app: App) -> None:
    """R16a."""
    messages = waiting(app, 5)
    second, fourth = messages[1], messages[3]
    suspect = update(ExceptionQueue).where(ExceptionQueue.message_id.in_([second, fourth]))
    app.in_transaction(lambda session: session.execute(suspect.values(careful=True)))
    claimed = [[each.message_id for each in claim(app, f"worker {n}")] for n in range(4)]
    assert claimed == [[messages[0], messages[2], messages[4]], [second], [fourth], []]


def test_a_careful_retry_that_is_first_in_turn_is_not_overtaken(app: App) -> None:
    """R16a."""
    first, *others = waiting(app, 3)
    suspect = update(ExceptionQueue).where(ExceptionQueue.message_id == first)
    app.in_transaction(lambda session: session.execute(suspect.values(careful=True)))
    claimed = [[each.message_id for each in claim(app, f"worker {n}")] for n in range(2)]
    assert claimed == [[first], others]


def test_a_poison_retry_is_charged_and_its_neighbours_never_are(app: App) -> None:
    """R16a: the poison kills every worker that runs it."""
    poison, *others = waiting(app, 3)
    claim(app, "first")
    app.pass_time(LEASE + 1)
    app.repo("recover")
    turn = 0
    while claimed := claim(app, f"worker {turn}"):
        (delivery,) = claimed
        turn += 1
        if delivery.message_id != poison:
            app.repo("apply_outcome", delivery, Succeeded(), at_once(2))
            continue
        app.pass_time(LEASE + 1)
        app.repo("recover")
    runs = [(1, "exception"), (2, "interrupted"), (3, "killed"), (4, "killed")]
    assert app.story(poison) == [*runs, (None, "dead")]
    assert list(app.queue()) == [poison]
    assert app.row(poison).state == "dead"
    for message in others:
        assert app.story(message) == [(1, "exception"), (2, "interrupted"), (3, "succeeded")]


def test_recovery_changes_nothing_of_a_run_that_was_settled_meanwhile(app: App) -> None:
    """C02: whoever reports first wins, and is not undone."""
    (message,) = waiting(app, 1)
    (delivery,) = claim(app, "slow worker")
    app.pass_time(LEASE + 1)
    app.repo("apply_outcome", delivery, Succeeded(), at_once(2))
    assert app.repo("recover") == 0
    assert app.queue() == {}
    assert app.story(message) == [(1, "exception"), (2, "succeeded")]


def test_a_range_that_was_lost_runs_again_with_nobody_charged(app: App) -> None:
    """R45: the first crash, which nobody can attribute, charges nobody."""
    ran: list[tuple[str, int]] = []
    app.consumer(lambda payload, session, meta: ran.append((payload.name, meta.attempts)))
    app.publish_many([Job(name=str(n)) for n in range(4)])
    claimed = app.repo(
        "claim_range", app.group(), "dead", limit=10, lease=LEASE, watermark=Watermark()
    )
    assert len(claimed.deliveries) == 4
    assert app.drain() == {}
    assert app.later(LEASE + 1) == {"succeeded": 4}
    assert ran == [(str(n), 0) for n in range(4)]
    assert app.log() == []
    assert app.rows(select(RangeClaim)) == []


def test_a_message_that_kills_a_careful_run_is_known_by_name(app: App) -> None:
    """R45: it alone gets a killed row and a place in the exception queue."""
    app.consumer(lambda payload, session, meta: None, retry=at_once(1))
    first, poison, last = app.publish_many([Job(name=str(n)) for n in range(3)])
    group = app.group()
    app.repo("claim_range", group, "dead 1", limit=10, lease=LEASE, watermark=Watermark())
    app.pass_time(LEASE + 1)
    again = app.repo("claim_range", group, "dead 2", limit=10, lease=LEASE, watermark=Watermark())
    assert again.careful
    app.repo("settle_range", again, [], at_once(1), progress=first, running=poison, lease=LEASE)
    app.pass_time(LEASE + 1)
    third = app.repo("claim_range", group, "third", limit=10, lease=LEASE, watermark=Watermark())
    assert [each.message_id for each in third.deliveries] == [last]
    assert list(app.queue()) == [poison]
    assert app.story(poison) == [(1, "killed")]
    row = app.row(poison)
    assert (row.state, row.attempts, row.spent, row.careful) == ("ready", 1, 1, True)


def test_a_careful_range_names_each_message_before_it_runs(app: App) -> None:
    """R45."""
    named: list[int | None] = []

    def handler(payload: Job, meta: MessageMeta) -> None:
        ((running, careful),) = app.apart(select(RangeClaim.running, RangeClaim.careful))
        assert careful
        named.append(running)

    app.consumer(handler, session=False)
    messages = app.publish_many([Job(), Job(), Job()])
    app.repo("claim_range", app.group(), "dead", limit=10, lease=LEASE, watermark=Watermark())
    assert app.later(LEASE + 1) == {"succeeded": 3}
    assert named == messages


def test_a_range_handed_back_is_taken_before_new_ones_and_not_in_careful_mode(app: App) -> None:
    """R47: a graceful stop charges nobody."""
    messages = app.publish_many([Job(), Job(), Job()])
    group = app.group()
    mark = Watermark()
    claimed = app.repo("claim_range", group, "stopping", limit=2, lease=LEASE, watermark=mark)
    app.repo("hand_back", claimed, [], at_once(1), progress=messages[0])
    again = app.repo("claim_range", group, "next", limit=2, lease=LEASE, watermark=mark)
    assert [each.message_id for each in again.deliveries] == [messages[1]]
    assert not again.careful
    assert app.log() == []


def test_renewing_a_lease_keeps_a_run_from_being_taken_back(app: App) -> None:
    """R44."""
    (message,) = waiting(app, 1)
    claim(app, "living worker")
    app.pass_time(LEASE - 1)
    assert app.repo("renew", "living worker", LEASE) is True
    app.pass_time(LEASE - 1)
    assert app.repo("recover") == 0
    assert app.row(message).state == "running"
    assert app.repo("renew", "somebody else", LEASE) is False
