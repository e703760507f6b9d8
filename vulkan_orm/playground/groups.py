"""Several readers of one topic: 06."""

from datetime import timedelta

from pydantic import BaseModel

from vulkan_orm import RetryPolicy
from vulkan_orm.playground.stage import Stage, scenario


class Signup(BaseModel):
    """The payload."""

    name: str


@scenario(
    "06",
    "Two groups on one topic",
    question="Two departments want every signup. One of them is broken. Does the other notice?",
    trap="Readers that share one queue take each other's messages, and one that fails can hold "
    "the others up or make them run again.",
    here="Each group reads the whole topic at a position of its own, with its own exception queue "
    "and budget. A group that is added later starts at the beginning.",
)
def groups(stage: Stage) -> None:
    signups = stage.vulkan.topic("signups", Signup)
    greeted: list[str] = []
    counted: list[str] = []

    @signups.consumer(group="greeting")
    def greet(signup: Signup) -> None:
        greeted.append(signup.name)

    @signups.consumer(
        group="scoring",
        retry=RetryPolicy(backoff_base=timedelta(minutes=5), jitter=False),
    )
    def score(signup: Signup) -> None:
        raise RuntimeError(f"no score for {signup.name}")

    stage.code(greet, score)
    names = ["Ann", "Ben", "Eve"]
    with stage.transaction() as session:
        ids = signups.publish_many(session, [Signup(name=name) for name in names])
    stage.drain()
    stage.tell(f"Three signups. The greeting group did {greeted}; the scoring group failed each.")
    stage.show_queue("signups", "greeting")
    stage.show_queue("signups", "scoring")

    @signups.consumer(group="counting")
    def count(signup: Signup) -> None:
        counted.append(signup.name)

    stage.drain()
    stage.tell(f"A third group was added after all that, and did {counted}.")
    waiting = [row.message_id for row in stage.queue("signups", "scoring")]
    stage.check("one group is done, each message once", greeted, names)
    stage.check("and owes nothing", list(stage.queue("signups", "greeting")), [])
    stage.check("the other has all three to try again", waiting, ids)
    stage.check("neither has anything left to read", stage.lag("signups", "scoring"), 0)
    stage.check("a late group gets everything", counted, names)
