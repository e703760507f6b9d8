"""How long to wait, and how much to take at once."""

RANGE_TARGET = 0.5
MIN_RANGE = 1
MAX_RANGE = 2000
BATCH = 1000
FIRST_RANGE = 100
RETRIES = 500
MIN_PAUSE = 0.01
MAX_PAUSE = 1.0
# Before a worker that has just worked goes to sleep, so that a busy topic never lets it.
AWAKE = (0.002, 0.003)
MIN_HELD = 0.002


def next_range_size(size: int, done: int, seconds: float) -> int:
    """The size of the next range, so that one takes about RANGE_TARGET seconds.

    Grows at most fourfold at a time: one quick range says little about the next.
    """
    if done <= 0:
        return max(MIN_RANGE, size // 2)
    fitting = done * RANGE_TARGET / seconds if seconds > 0 else MAX_RANGE
    return int(max(MIN_RANGE, min(fitting, size * 4, MAX_RANGE)))


def is_quick(seconds: float) -> bool:
    """Whether ranges end so soon that the next one may be claimed before this one is done."""
    return seconds < RANGE_TARGET / 2


def next_pause(pause: float, *, worked: bool) -> float:
    """The seconds to rest before the next look: none after work, doubling while idle."""
    if worked:
        return 0.0
    return min(max(pause * 2, MIN_PAUSE), MAX_PAUSE)


def held_pause(seconds: float) -> float:
    """The seconds to rest while an open transaction has held a topic back for so many.

    Each look comes late by an eighth of that at most.
    """
    return min(max(seconds / 8, MIN_HELD), MAX_PAUSE)
