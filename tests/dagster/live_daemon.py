"""`dagster-daemon` that looks for work every 0.2 s. Dagster has no settings for these intervals of 5 and 30 s."""

from dagster._daemon import controller, sensor
from dagster._daemon.cli import main
from dagster._daemon.run_coordinator import queued_run_coordinator_daemon

TICK_S = 0.2


class QuickCoordinator(queued_run_coordinator_daemon.QueuedRunCoordinatorDaemon):
    """Looks at the queue more often than the whole seconds that `dagster.yaml` allows."""

    def __init__(self, interval_seconds: float, **options: object) -> None:
        super().__init__(min(interval_seconds, TICK_S), **options)


if __name__ == "__main__":
    controller.DEFAULT_DAEMON_INTERVAL_SECONDS = TICK_S  # backfills
    sensor.MIN_INTERVAL_LOOP_TIME = TICK_S  # each sensor still waits for its own interval
    controller.QueuedRunCoordinatorDaemon = QuickCoordinator
    main()
