"""sum, min, max, min_by and max_by: from which record a row's other fields are, and which of equal records wins."""

from scenario import Operation, Scenario, element

COLUMNS = "k string, v bigint, text string"
ROWS = [("a", 3, "first"), ("a", 5, "higher"), ("a", 1, "lower"), ("b", 7, "other key"), ("a", 1, "as low"),
        ("a", 5, "as high"), ("b", -7, "negative"), ("a", 9, "highest")]  # fmt: skip


def running(verb: str, field: str | int = "v") -> Scenario:
    kept = "the key's first record" if verb in ("sum", "min", "max") else "the record with the extreme"
    name = verb if field == "v" else f"{verb}_of_{field}"
    return Scenario(
        name,
        f"{verb} gives a row per record; its other fields are those of {kept}.",
        Operation(verb, lambda: field),
        [element(*row) for row in ROWS],
        input=COLUMNS,
        output=COLUMNS,
    )


DOUBLES = "k string, v double"
SCENARIOS = [
    *(running(verb) for verb in ("sum", "min", "max", "min_by", "max_by")),
    running("sum", 1),
    running("max_by", "text"),
    running("min", "text"),
    Scenario("sum_of_doubles", "A sum of doubles is added in the order of the records.", Operation("sum", lambda: "v"),
             [element("a", 0.1), element("a", 0.2), element("a", 1e16), element("a", -1e16)],
             input=DOUBLES, output=DOUBLES),
]  # fmt: skip
