"""`--distributed`: this process as one of several that share the reading of Parquet files."""

import os
import sys
from pathlib import Path
from typing import NamedTuple

import jax

from stategp._command._tables import is_parquet
from stategp._runtime import PATIENCE, join_processes


class Joined(NamedTuple):
    """Which of the processes this one is."""

    number: int = 0
    of: int = 1
    output: int | None = None  # a copy of standard output, on which the network's library talks

    @property
    def speaks(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.number == 0

    def leave(self) -> None:
        """Wait for the others."""
        if self.output is not None:
            jax.distributed.shutdown()
            os.dup2(self.output, 1)


def join(
    data: Path,
    distributed: bool,
    coordinator: str | None,
    process: int | None,
    processes: int | None,
    patience: float | None,
) -> Joined:
    """Find the others: through the scheduler, or where the options say."""
    told = [coordinator, process, processes]
    if not distributed:
        if any(value is not None for value in (*told, patience)):
            raise ValueError(
                "--coordinator, --process, --processes and --patience belong to --distributed"
            )
        return Joined()
    if not (data.is_dir() or is_parquet(data)):
        raise ValueError(
            f"--distributed shares the reading of Parquet files, a folder or one, and {data} is "
            "neither"
        )
    if any(value is None for value in told) and any(value is not None for value in told):
        raise ValueError("give all of --coordinator HOST:PORT, --process N and --processes N")
    patience = PATIENCE if patience is None else patience
    join_processes(coordinator, processes, process, patience=patience)
    sys.stdout.flush()
    joined = Joined(jax.process_index(), jax.process_count(), os.dup(1))
    os.dup2(2, 1)
    print(
        f"process {joined.number} of {joined.of}; if one of them dies, the others stop within "
        f"{patience:g} s and all are to be started again",
        file=sys.stderr,
    )
    return joined
