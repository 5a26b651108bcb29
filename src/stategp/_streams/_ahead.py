"""Reading ahead: a thread fetches the next batches while the last one is worked on."""

import queue
import threading
from collections.abc import Generator, Iterable
from typing import Any, NamedTuple, TypeVar

Item = TypeVar("Item")

_WAITING = 2  # batches that are read before they are asked for
_PATIENCE = 0.2  # seconds after which either side looks whether the other is still there
_PARTING = 5.0  # seconds that a reader has to end; one that waits for a network may not


class _Fetched(NamedTuple):
    """An item, an error, or neither: the end."""

    item: Any = None
    error: BaseException | None = None


def ahead(items: Iterable[Item]) -> Generator[Item, None, None]:
    """The same items; what raises an error in the thread raises it here.

    The thread ends with the iteration, also if that is broken off.
    """
    fetched: queue.Queue[_Fetched] = queue.Queue(_WAITING)
    stopped = threading.Event()

    def put(one: _Fetched) -> bool:
        while not stopped.is_set():
            try:
                fetched.put(one, timeout=_PATIENCE)
            except queue.Full:
                continue
            return True
        return False

    def fetch() -> None:
        try:
            for item in items:
                if not put(_Fetched(item)):
                    return
        except BaseException as error:  # whatever it is, it belongs where the items are used
            put(_Fetched(error=error))
        else:
            put(_Fetched())

    reader = threading.Thread(target=fetch, name="stategp reader", daemon=True)
    reader.start()
    try:
        while True:
            try:
                one = fetched.get(timeout=_PATIENCE)  # so that Ctrl-C is heard everywhere
            except queue.Empty:
                continue
            if one.error is not None:
                raise one.error
            if one.item is None:
                return
            yield one.item
    finally:
        stopped.set()
        reader.join(_PARTING)
