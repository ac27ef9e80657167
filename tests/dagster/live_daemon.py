"""`dagster-daemon` that looks at backfills every two seconds and not every thirty, for which there is no setting."""

from dagster._daemon import controller
from dagster._daemon.cli import main

if __name__ == "__main__":
    controller.DEFAULT_DAEMON_INTERVAL_SECONDS = 2
    main()
