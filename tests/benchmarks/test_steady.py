import pytest

from benchmarks.steady import LONG_ENOUGH, MIN_EPOCHS, epochs_for, longer, steady_part, warm_up_epochs


@pytest.mark.parametrize(("epochs", "dropped"), [(5, 1), (6, 2), (10, 2), (11, 3)])
def test_a_fifth_of_the_epochs_is_warm_up_rounded_up(epochs: int, dropped: int) -> None:
    assert warm_up_epochs(epochs) == dropped


@pytest.mark.parametrize(
    ("records", "epoch_records", "epochs"),
    [(2_000_000, 200_000, 20), (2_000_000, 1_000_000, 20), (4_100_000, 200_000, 21)],
)
def test_a_short_data_set_is_replayed_until_it_fills_twenty_epochs(
    records: int, epoch_records: int, epochs: int
) -> None:
    assert epochs_for(records, epoch_records) == epochs


@pytest.mark.parametrize(("least", "epochs"), [(12, 12), (MIN_EPOCHS, 10), (1, 10)])
def test_a_run_may_be_short_on_request(least: int, epochs: int) -> None:
    assert epochs_for(2_000_000, 200_000, least) == epochs


@pytest.mark.parametrize(("least", "epochs"), [(5, 5), (19, 19), (20, LONG_ENOUGH), (LONG_ENOUGH + 1, LONG_ENOUGH + 1)])
def test_a_fast_engine_reads_more_epochs_unless_the_run_is_short_on_request(least: int, epochs: int) -> None:
    assert longer(least) == epochs


def test_no_run_is_shorter_than_a_steady_part_needs() -> None:
    assert epochs_for(10, 10, least=1) == MIN_EPOCHS


def test_the_steady_part_starts_when_the_last_warm_up_epoch_ends() -> None:
    # Ten epochs: two slow ones, then one per second with a pause of a second before the last.
    ends = [10.0, 20.0, 21.0, 22.0, 23.0, 24.0, 25.0, 26.0, 27.0, 29.0]

    part = steady_part(ends)

    assert (part.start, part.end, part.epochs) == (20.0, 29.0, 8)


def test_four_epochs_have_no_steady_part() -> None:
    with pytest.raises(ValueError, match="at least 5"):
        steady_part([1.0, 2.0, 3.0, 4.0])


def test_epochs_that_end_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="one after the other"):
        steady_part([1.0, 2.0, 3.0, 5.0, 4.0])
