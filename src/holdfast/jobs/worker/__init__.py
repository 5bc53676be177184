"""Run jobs: claim → run → verdict → report, with slots, heartbeat, wake-ups and child processes."""
