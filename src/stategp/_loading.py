"""`sg.load` and `sg.register`, which have to know all classes that a file may name.

No name in a file is ever imported (`_files`). So what is otherwise imported on first use is
imported here, whatever a file holds.
"""

import stategp._forecasting
import stategp._many  # noqa: F401 (both tell `_files` of their classes)
from stategp._files import load, register

__all__ = ["load", "register"]
