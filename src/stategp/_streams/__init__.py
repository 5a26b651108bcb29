"""Data that do not fit into memory: read batch by batch, kept as sums."""

from stategp._streams._drawing import Draws
from stategp._streams._parquet import read_files
from stategp._streams._stream import LATEST, Stream, stream
from stategp._streams._summarise import summarise

__all__ = ["LATEST", "Draws", "Stream", "read_files", "stream", "summarise"]
