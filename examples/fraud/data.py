"""Generated payments by card, as JSON lines: the same ones on every machine, in any number.

    python -m lakestate.examples.fraud.data --parts 24 input

The stream has no end. It comes in parts of ten minutes, one file each. Each part is computed from its number alone.
Some six payments in a hundred come out of order: most of them by less than a minute, some by up to ten minutes, which
is late for the job. One line in two hundred is malformed.

The random values come from generators that are seeded with the number of a part. Only their `random()` is used, which
Python promises not to change.
"""

import argparse
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from lakestate.examples.files import newest_number, write_lines

START = datetime(2026, 1, 1, 0, 0, 20, tzinfo=UTC)
"""Not when a window of five minutes begins, so that windows do not end where files do."""

PART = timedelta(minutes=10)
PURCHASES_PER_PART = 1_000
CARDS = 800
MERCHANTS = 30
COUNTRIES = ("DE", "FR", "NL", "PL")

_MS = timedelta(milliseconds=1)
_PART_MS = PART // _MS
_LONGEST_DELAY_MS = 600_000
_EARLIER_PARTS = _LONGEST_DELAY_MS // _PART_MS + 1  # a payment may arrive that many parts after its own
_IDS_PER_PART = 100_000

_BURST = 0.004  # share of the purchases that are the first of many small ones
_BURST_PAYMENTS = 12
_BURST_MS = 40_000
_ABROAD = 0.01
_LARGE = 0.008
_OUT_OF_ORDER = 0.06
_BEYOND_A_MINUTE = 0.15  # share of those that are out of order
_MALFORMED = 0.005


class Volume(NamedTuple):
    """How many payments there are.

    Attributes:
        cards: Number of cards.
        purchases_per_part: Purchases that begin in a part; a few of them are many payments.
    """

    cards: int
    purchases_per_part: int


DEFAULT_VOLUME = Volume(CARDS, PURCHASES_PER_PART)


class Payment(NamedTuple):
    """One payment; the stream is ordered by the first two fields.

    Attributes:
        arrives_ms: When its line is written, in ms since `START`.
        id: Number of the payment.
        at_ms: When the card was used, in ms since `START`.
        card: Of the payer.
        merchant: Who gets the money.
        country: Of the merchant.
        cents: The amount.
        fault: What is wrong with its line, a number in 0..3; None for nothing.
    """

    arrives_ms: int
    id: int
    at_ms: int
    card: str
    merchant: str
    country: str
    cents: int
    fault: int | None

    def line(self) -> str:
        """Returns the payment as a line of JSON, or what is left of it."""
        at = (START + self.at_ms * _MS).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        amount = f"{self.cents // 100}.{self.cents % 100:02}"
        head = f'{{"at": "{at}", "id": {self.id}, '
        names = f'"merchant": "{self.merchant}", "country": "{self.country}"'
        match self.fault:
            case None:
                return f'{head}"card": "{self.card}", {names}, "amount": {amount}}}'
            case 0:
                return f'{head}"card": "{self.card}", "merch'
            case 1:
                return f"payment {self.id}: terminal out of paper"
            case 2:
                return f'{head}"card": "{self.card}", {names}, "amount": "a lot"}}'
            case _:
                return f'{head}{names}, "amount": {amount}}}'


def read_part(number: int, volume: Volume = DEFAULT_VOLUME) -> list[str]:
    """Returns the lines of one part of ten minutes, in the order in which they arrive.

    Args:
        number: Number of the part; the part that begins at `START` is 1.
        volume: How many payments there are.

    Raises:
        IndexError: The number is less than 1.
    """
    if number < 1:
        raise IndexError(f"Parts of the payments start at 1; there is no part {number}.")
    first = (number - 1) * _PART_MS
    made_in = range(max(1, number - _EARLIER_PARTS), number + 1)
    payments = sorted(
        payment
        for part in made_in
        for payment in _made_in(part, volume)
        if first <= payment.arrives_ms < first + _PART_MS
    )
    return [payment.line() for payment in payments]


def write_files(parts: int, folder: Path) -> list[Path]:
    """Writes the next parts of the stream to a folder, one file each, and returns the paths in order."""
    folder.mkdir(parents=True, exist_ok=True)
    first = newest_number(folder, "payments", ending="json") + 1
    return [write_lines(read_part(number), folder, "payments", number) for number in range(first, first + parts)]


@lru_cache(maxsize=_EARLIER_PARTS + 1)
def _made_in(part: int, volume: Volume) -> tuple[Payment, ...]:
    """Returns the payments of all purchases that began in a part, whenever their lines arrive."""
    draw = Random(f"payments 32 of part {part}").random
    payments = (payment for _ in range(volume.purchases_per_part) for payment in _purchase(part, volume.cards, draw))
    ids = range((part - 1) * _IDS_PER_PART, part * _IDS_PER_PART)
    return tuple(payment._replace(id=number) for number, payment in zip(ids, payments, strict=False))


def _purchase(part: int, cards: int, draw: Callable[[], float]) -> Iterator[Payment]:
    at_ms = (part - 1) * _PART_MS + int(draw() * _PART_MS)
    number = int(draw() ** 2 * cards)  # squared: some pay more often than others
    card = f"c{number:03}"
    cents = 300 + int(draw() ** 3 * 12_000)
    if draw() < _BURST:
        merchant = _merchant(draw)
        for _ in range(_BURST_PAYMENTS):
            yield _payment(at_ms + int(draw() * _BURST_MS), card, merchant, _home(number), 100, draw)
        return
    abroad = draw() < _ABROAD
    country = COUNTRIES[(number + 1) % len(COUNTRIES)] if abroad else _home(number)
    large = 30 if draw() < _LARGE else 1
    yield _payment(at_ms, card, _merchant(draw), country, cents * large, draw)


def _payment(at_ms: int, card: str, merchant: str, country: str, cents: int, draw: Callable[[], float]) -> Payment:
    delay = 0
    if draw() < _OUT_OF_ORDER:
        longest = _LONGEST_DELAY_MS if draw() < _BEYOND_A_MINUTE else 55_000
        delay = 1_000 + int(draw() * (longest - 1_000))
    fault = int(draw() * 4) if draw() < _MALFORMED else None
    return Payment(at_ms + delay, 0, at_ms, card, merchant, country, cents, fault)


def _merchant(draw: Callable[[], float]) -> str:
    return f"m{int(draw() ** 2 * MERCHANTS):02}"


def _home(number: int) -> str:
    return COUNTRIES[number % len(COUNTRIES)]


def main() -> None:
    """Writes the next parts to a folder."""
    parser = argparse.ArgumentParser(description="Write generated payments as files of JSON lines.")
    parser.add_argument("folder", type=Path, help="made if it does not exist; later calls add to it")
    parser.add_argument("--parts", type=int, default=12, help="number of files, each with ten minutes")
    args = parser.parse_args()
    paths = write_files(args.parts, args.folder)
    print(f"{args.folder}: {len(paths)} files, the last one is {paths[-1].name}" if paths else "nothing to write")


if __name__ == "__main__":
    main()


__all__ = [
    "CARDS",
    "COUNTRIES",
    "DEFAULT_VOLUME",
    "PART",
    "PURCHASES_PER_PART",
    "START",
    "Payment",
    "Volume",
    "read_part",
    "write_files",
]
