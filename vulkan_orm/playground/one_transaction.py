"""Publishing and handling inside transactions: 01, 02, 11."""

from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.orm import Mapped, Session, mapped_column

from vulkan_orm import Terminal
from vulkan_orm.playground.stage import Host, Stage, scenario


class Order(BaseModel):
    """The payload of these scenarios."""

    number: int
    cents: int = 1999


class OrderRow(Host):
    """An order of the shop."""

    __tablename__ = "shop_order"
    number: Mapped[int] = mapped_column(primary_key=True)


class Invoice(Host):
    """What the billing handler writes."""

    __tablename__ = "shop_invoice"
    number: Mapped[int] = mapped_column(primary_key=True)
    cents: Mapped[int]


@scenario(
    "01",
    "Publish and handle in one transaction",
    question="A shop stores an order and tells billing about it. Can one happen without the other?",
    trap="The order is saved, then the broker is told. A crash in between loses the message, and a "
    "handler that crashes after its writes but before its acknowledgement does its work twice.",
    here="The message is a row in the transaction of the order, and what a handler writes commits "
    "together with its outcome.",
)
def one_transaction(stage: Stage) -> None:
    stage.tables(OrderRow, Invoice)
    orders = stage.vulkan.topic("orders", Order)

    def place(session: Session, number: int, cents: int) -> None:
        session.add(OrderRow(number=number))
        orders.publish(session, Order(number=number, cents=cents))

    @orders.consumer(group="billing")
    def bill(order: Order, session: Session) -> None:
        session.add(Invoice(number=order.number, cents=order.cents))
        if order.cents < 0:
            raise Terminal("nobody is billed a negative sum")

    stage.code(place, bill)
    with stage.transaction() as session:
        place(session, 1, 1999)
        place(session, 2, -5)
        session.flush()
        before = (stage.count(OrderRow), len(stage.messages("orders")))
    after = (stage.count(OrderRow), len(stage.messages("orders")))
    stage.tell(f"Others saw {in_both(before)} before the commit, {in_both(after)} after it.")
    stage.drain()
    invoices = stage.rows(select(Invoice.number))
    stage.tell(f"Billing ran both. The second failed. Invoices are there for {invoices}.")
    stage.show_log("orders", "billing")
    stage.check("before the commit there is neither order nor message", before, (0, 0))
    stage.check("after it there are both", after, (2, 2))
    stage.check("the handler's invoice is there", invoices, [1])
    stage.check("a failed handler's invoice is not, though it was added", 2 in invoices, False)
    stage.check("nothing is left to read", stage.lag("orders", "billing"), 0)


def in_both(counts: tuple[int, int]) -> str:
    return "{} orders and {} messages".format(*counts)


@scenario(
    "02",
    "A rollback publishes nothing",
    question="The checkout fails after its message was published. Does anybody still get it?",
    trap="A message sent to a broker cannot be taken back when the transaction around it fails.",
    here="A rolled back transaction, or a savepoint in it, takes its messages with it.",
)
def rollback(stage: Stage) -> None:
    carts = stage.vulkan.topic("carts", Order)
    seen: list[int] = []

    @carts.consumer(group="shipping")
    def ship(order: Order) -> None:
        seen.append(order.number)

    def check_out(session: Session) -> None:
        carts.publish(session, Order(number=1))
        savepoint = session.begin_nested()
        carts.publish(session, Order(number=2))
        savepoint.rollback()
        carts.publish(session, Order(number=3))

    stage.code(ship, check_out)
    try:
        with stage.transaction() as session:
            carts.publish(session, Order(number=0))
            raise RuntimeError("the checkout broke")
    except RuntimeError as error:
        stage.tell(f"One transaction published order 0 and rolled back: {error}.")
    left = len(stage.messages("carts"))
    with stage.transaction() as session:
        check_out(session)
    stage.tell("Another rolled a savepoint back, in which it had published order 2, and committed.")
    stage.drain()
    stage.tell(f"Shipping was given the orders {seen}.")
    stage.check("the rolled back transaction left no message", left, 0)
    stage.check("the savepoint took its message with it, and only that", seen, [1, 3])


@scenario(
    "11",
    "Publish twice with one idempotency key",
    question="A customer presses the button twice. Are there two parcels?",
    trap="Looking for an earlier message first, then publishing, lets two requests both find none.",
    here="The key is unique in its topic. The second publish gets the first message's id, adds "
    "nothing, and its transaction goes on.",
)
def idempotency(stage: Stage) -> None:
    parcels = stage.vulkan.topic("parcels", Order)
    seen: list[int] = []

    @parcels.consumer(group="packing")
    def pack(order: Order) -> None:
        seen.append(order.number)

    def press(session: Session) -> int:
        seven = Order(number=7)
        return parcels.publish(session, seven, idempotency_key="order-7")

    stage.code(press, pack)
    with stage.transaction() as session:
        first = press(session)
    with stage.transaction() as session:
        again = press(session)
        other = parcels.publish(session, Order(number=8))
    stage.tell(f"The first press published message {first}; the second was told {again}.")
    stage.drain()
    stage.tell(f"Packing was given the orders {seen}.")
    stage.check("both presses name the same message", again, first)
    held = [message.id for message in stage.messages("parcels")]
    stage.check("the topic holds it once", held, [first, other])
    stage.check("it ran once, and the second transaction was not harmed", seen, [7, 8])
