"""Small streams for the functions of the page, which one job runs when the page was read, and a table of sketches."""

from streams import stream, write

from state_engine.api import Aggregate, Duration, WatermarkStrategy
from state_engine.inspect import state_sql
from state_engine.spark import MemorySink, StreamJob

SHOPS = [("north", "ann", 1.0), ("north", "bob", 2.0), ("north", "ann", 9.0), ("south", "cid", 4.0)]
STREAMS = {
    "payments": ("payment_id bigint, user string, amount bigint, at timestamp", [
        {"payment_id": 1, "user": "ann", "amount": 10, "at": "2026-01-01T00:00:10Z"},
        {"payment_id": 1, "user": "ann", "amount": 10, "at": "2026-01-01T00:00:11Z"},
        {"payment_id": 2, "user": "ann", "amount": 20, "at": "2026-01-01T00:01:10Z"},
    ]),
    "changes": ("customer string, city string, changed_at bigint", [
        {"customer": "ann", "city": "Rome", "changed_at": 2}, {"customer": "ann", "city": "Oslo", "changed_at": 1},
    ]),
    "scores": ("game string, player string, points bigint", [
        {"game": "go", "player": f"p{n}", "points": n} for n in range(12)
    ]),
    "moves": ("person string, town string, moved_at bigint", [
        {"person": "ann", "town": "Rome", "moved_at": 1}, {"person": "bob", "town": "Rome", "moved_at": 1},
    ]),
    "clicks": ("user string, page string, at timestamp", [
        {"user": "ann", "page": "/", "at": "2026-01-01T00:00:00Z"},
        {"user": "ann", "page": "/cart", "at": "2026-01-01T00:20:00Z"},
        {"user": "ann", "page": "/pay", "at": "2026-01-01T01:00:00Z"},
    ]),
    "orders": ("order bigint, user string, currency string, price bigint, ordered_at timestamp", [
        {"order": 7, "user": "ann", "currency": "USD", "price": 5, "ordered_at": "2026-01-01T00:00:00Z"},
        {"order": 8, "user": "bob", "currency": "USD", "price": 6, "ordered_at": "2026-01-01T00:00:00Z"},
    ]),
    "paid": ("order_id bigint, amount bigint, at timestamp", [
        {"order_id": 7, "amount": 5, "at": "2026-01-01T00:59:00Z"},
        {"order_id": 8, "amount": 6, "at": "2026-01-01T01:01:00Z"},
    ]),
    "rates": ("of string, rate double, at timestamp", [
        {"of": "USD", "rate": 0.9, "at": "2025-12-31T00:00:00Z"},
        {"of": "USD", "rate": 0.8, "at": "2026-01-02T00:00:00Z"},
    ]),
}  # fmt: skip


def given(spark):
    for name, (_, rows) in STREAMS.items():
        write(name, rows)
    write("shops", [{"shop": shop, "user": user, "price": price} for shop, user, price in SHOPS])
    job = StreamJob("estimates", root="state")
    shops = job.from_stream(stream(spark, "shops", "shop string, user string, price double")).key_by("shop")
    estimates = {"users": Aggregate.approx_count_distinct("user"), "high": Aggregate.approx_quantile("price", 0.9)}
    shops.aggregate(estimates, uid="shops").sink_to(MemorySink("estimates"), uid="out")
    publish(job)

    def run_sql_of_page(text):
        distinct, quantiles = text.strip().splitlines()
        live = {name: state_sql("state", "estimates", "shops", name, "spark") for name in STATES}
        [[users]] = spark.sql(distinct.replace("/* the query */", live["approx_count_distinct_user"])).collect()
        high = dict(spark.sql(quantiles.replace("/* the query */", live["approx_quantile_price"])).collect())
        assert (users, high) == (3, {"north": 9.0, "south": 4.0})

    names = {"run_sql_of_page": run_sql_of_page}
    yield names
    the_functions_of_the_page_run(spark, names)


STATES = ("approx_count_distinct_user", "approx_quantile_price")


def publish(job):
    """Runs a job until its table has the state."""
    client = job.start()
    client.query.processAllAvailable()
    client.trigger_checkpoint().result(60)
    client.stop()


def the_functions_of_the_page_run(spark, names):
    job = StreamJob("declared", root="state")

    def of(name):
        return job.from_stream(stream(spark, name, STREAMS[name][0]), bounded=True)

    def timed(name, column="at"):
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(0)).with_timestamp_column(column)
        return of(name).assign_timestamps_and_watermarks(strategy)

    def rows(stream, name):
        stream.sink_to(MemorySink(name), uid=f"{name}-out")
        return MemorySink(name)

    payments = "user", "amount"
    results = {
        "totals": rows(names["totals"](of("payments")), "totals"),
        "addresses": rows(names["addresses"](of("changes")), "addresses"),
        "leaders": rows(names["leaders"](of("scores")), "leaders"),
        "people": rows(names["people_by_town"](of("moves")), "people"),
        "minutes": rows(names["per_minute"](timed("payments").select(*payments)), "minutes"),
        "visits": rows(names["visits"](timed("clicks").select("user", "page")), "visits"),
        "paid": rows(
            names["paid_orders"](timed("orders", "ordered_at").select("order", "user", "ordered_at"), timed("paid")),
            "paid",
        ),
        "euros": rows(names["in_euros"](timed("orders", "ordered_at"), timed("rates").select("of", "rate")), "euros"),
    }
    client = job.start(available_now=True)
    assert client.await_termination(120)
    of_columns = {
        "totals": ("user", "n", "total", "mean"), "addresses": ("customer", "city"), "leaders": ("rank", "player"),
        "people": ("town", "people", "op"), "minutes": ("user", "n", "total"), "visits": ("user", "clicks", "entry"),
        "paid": ("order", "user", "amount"), "euros": ("order", "rate"),
    }  # fmt: skip
    assert {
        name: sorted(tuple(row[column] for column in columns) for row in results[name].rows())
        for name, columns in of_columns.items()
    } == {
        "totals": [("ann", 2, 30, 15.0)],
        "addresses": [("ann", "Rome")],
        "leaders": [(rank, f"p{12 - rank}") for rank in range(1, 11)],
        "people": [("Rome", 2, "+I")],
        "minutes": [("ann", 1, 20), ("ann", 2, 20)],
        "visits": [("ann", 1, "/pay"), ("ann", 2, "/")],
        "paid": [(7, "ann", 5), (8, "bob", None)],
        "euros": [(7, 0.9), (8, 0.9)],
    }
