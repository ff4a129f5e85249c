"""Random numbers from a key, so that they depend neither on time nor on the order of execution."""

from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct
from typing import TypeVar

T = TypeVar("T")
_SCALE = 1.0 / 2**64
_WORDS = Struct("<8Q").unpack  # of a 64-byte digest


def keyed_uuid(*key: object) -> str:
    """Return a UUID in the form of version 4 that is a function of the key."""
    h = blake2b(repr(key).encode(), digest_size=16).hexdigest()
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"


class KeyedRandom:
    """A stream of random numbers for one key, such as (seed, order number, step)."""

    __slots__ = ("_at", "_block", "_key", "_left")

    def __init__(self, *key: object) -> None:
        self._key = repr(key).encode()
        self._at = 0
        self._left = 0
        self._block: tuple[int, ...] = ()

    def integer64(self) -> int:
        """The next 64-bit integer."""
        if not self._left:
            key = self._key + b"%d" % self._at if self._at else self._key
            self._block = _WORDS(blake2b(key).digest())
            self._at += 1
            self._left = 8
        self._left -= 1
        return self._block[self._left]

    def fraction(self) -> float:
        """The next number in [0, 1)."""
        return self.integer64() * _SCALE

    def uniform(self, low: float, high: float) -> float:
        """A number in [low, high)."""
        return low + (high - low) * self.integer64() * _SCALE

    def integer(self, low: int, high: int) -> int:
        """An integer of low..high, both included."""
        return low + self.integer64() % (high - low + 1)

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self.integer64() * _SCALE < probability

    def choice(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.integer64() % len(items)]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """`count` different items, in their given order."""
        places = list(range(len(items)))
        taken = sorted(places.pop(self.integer64() % len(places)) for _ in range(count))
        return [items[i] for i in taken]

    def weighted_choice(self, branches: Sequence[tuple[float, T]]) -> T:
        """One of the weighted branches."""
        total = 0.0
        for weight, _ in branches:
            total += weight
        at = self.integer64() * _SCALE * total
        for weight, item in branches:
            at -= weight
            if at < 0:
                return item
        return branches[-1][1]

    def digits(self, count: int) -> str:
        """A string of digits that does not start with 0."""
        return str(10 ** (count - 1) + self.integer64() % (9 * 10 ** (count - 1)))

    def uuid(self) -> str:
        """A version-4 shaped uuid."""
        h = f"{self.integer64():016x}{self.integer64():016x}"
        return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"
