"""What several processes tell one another; an error in one of them is one in all."""

from collections.abc import Callable

import jax

from stategp._runtime._devices import exchanged, is_in_step

_FINE, _FAILED = 0, 1  # how a message begins


def shared(read: Callable[[], bytes], what: str = "read its share") -> list[bytes]:
    """What every process has to say, in order; `what` it could not do if it failed."""
    if jax.process_count() == 1:
        return [read()]
    try:
        own = bytes([_FINE]) + read()
        failure: Exception | None = None
    except Exception as error:  # the others wait for this process: they must be told
        own, failure = bytes([_FAILED]) + str(error).encode(), error
    messages = exchanged(own)
    if failure is not None:
        raise failure
    for process, message in enumerate(messages):
        if message[0] == _FAILED:
            reason = message[1:].decode()
            raise RuntimeError(f"process {process} could not {what}: {reason}")
    return [message[1:] for message in messages]


def from_first(read: Callable[[], bytes], what: str) -> bytes:
    """What the first process has to say, or what this one has if it goes its own way."""
    if goes_alone():
        return read()
    return shared(lambda: read() if jax.process_index() == 0 else b"", what)[0]


def in_all(act: Callable[[], None], what: str) -> None:
    """Do something that has to succeed in all processes."""

    def said() -> bytes:
        act()
        return b""

    if goes_alone():
        act()
    else:
        shared(said, what)


def goes_alone() -> bool:
    """Whether no other process does the same: there is none, or the user has chosen a device."""
    if jax.process_count() == 1:
        return True
    chosen = jax.config.jax_default_device  # type: ignore[attr-defined]
    return chosen is not None and not is_in_step()


def is_first() -> bool:
    """Whether this process writes files for all that do the same."""
    return goes_alone() or jax.process_index() == 0
