"""What lasts: posteriors and forecasters in files, as docs/file-format.md describes them."""

from stategp._files._reading import load, load_as
from stategp._files._registry import allow, check_when_read, register, upgrade
from stategp._files._saving import save

__all__ = ["allow", "check_when_read", "load", "load_as", "register", "save", "upgrade"]
