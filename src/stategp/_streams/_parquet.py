"""Parquet files as pyarrow opens them: checked, and named where something is wrong with them."""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def open_files(paths: list[Any]) -> Any:
    """Files and folders as a dataset of pyarrow's."""
    try:
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install 'stategp[data]'") from None
    for path in paths:
        if not Path(path).exists():
            raise FileNotFoundError(f"there is no file or folder {path}")
    names = [os.fspath(path) for path in paths]
    try:
        dataset = pyarrow.dataset.dataset(
            names[0] if len(names) == 1 else names, format="parquet", partitioning="hive"
        )
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(_not_opened(names, error)) from None
    if not list(dataset.get_fragments()):
        raise ValueError(f"{', '.join(names)} holds no Parquet files")
    return dataset


def _not_opened(names: list[str], error: Exception) -> str:
    """Which file pyarrow cannot make sense of, the first one that it has looked at."""
    reason = str(error).splitlines()[0]
    named = re.search(r"Could not read schema from '(.*?)'\. .*?: (.*)", reason)
    file, reason = named.groups() if named else (", ".join(names), reason)
    return (
        f"{file} cannot be read as Parquet: {reason} A stream reads Parquet files and folders of "
        "them; of other files give a function that returns batches, or convert them"
    )


def check_columns(file: Any, names: list[str]) -> None:
    """Refuse a file without a column that others have; pyarrow would read it as missing."""
    import pyarrow.dataset

    of_folders = pyarrow.dataset.get_partition_keys(file.partition_expression)
    there = [*file.physical_schema.names, *of_folders]
    for name in names:
        if name not in there:
            raise ValueError(
                f"{getattr(file, 'path', 'a part of the dataset')} has no column {name!r}, which "
                f"other files have; its columns are {', '.join(there)}: add the column, or leave "
                "the file out"
            )


def checking(file: Any) -> dict[str, Any]:
    """How pyarrow is told to compare pages with their checksums, where files have some."""
    import pyarrow.dataset

    if not isinstance(file, pyarrow.dataset.ParquetFileFragment):
        return {}
    checking = pyarrow.dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
    return {"fragment_scan_options": checking}


@contextlib.contextmanager
def naming(file: Any) -> Iterator[None]:
    """Errors of pyarrow with the name of the file that is to blame."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        path = getattr(file, "path", None)
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        named = f"{path} cannot be read" if path else "the data cannot be read"
        raise ValueError(f"{named}: {reason}") from None


def read_files(path: Any, names: list[str], filter: Any = None) -> Any:
    """Some columns of a file or folder, and perhaps some rows, as one table in memory."""
    import pyarrow

    dataset, tables = open_files([path]), []
    for file in dataset.get_fragments(filter):
        with naming(file):
            check_columns(file, names)
            options = checking(file)
            tables.append(
                file.to_table(schema=dataset.schema, columns=names, filter=filter, **options)
            )
    empty = pyarrow.schema([dataset.schema.field(name) for name in names]).empty_table()
    return pyarrow.concat_tables([empty, *tables])
