"""A sample of rows that does not depend on their order, and a number that tells data apart.

Each row has a hash; the sample are the rows with the smallest ones.
"""

import numpy as np

SAMPLED = 2**15  # observations


class Sample:
    """Rows that stand for all, and how many there were."""

    def __init__(self, most: int = SAMPLED):
        self.most, self.rows, self.weight, self.digest = most, 0, 0.0, 0
        self.columns: list[np.ndarray] = []
        self.hashes = np.zeros(0, np.uint64)

    def add(self, columns: list[np.ndarray]) -> None:
        """More rows: x, y, what is read beside it, and weights."""
        if len(columns[0]) == 0:
            return
        hashes = row_hashes(columns)
        digest = int(np.sum(hashes, dtype=np.uint64))
        self.take_in(columns, hashes, len(hashes), float(np.sum(columns[3])), digest)

    def take_in(
        self, columns: list[np.ndarray], hashes: np.ndarray, rows: int, weight: float, digest: int
    ) -> None:
        """What another sample holds, and what it stands for."""
        self.rows += rows
        self.weight += weight
        self.digest = (self.digest + digest) % 2**63
        if self.columns and columns:
            columns = [np.append(a, b) for a, b in zip(self.columns, columns, strict=True)]
        self.hashes, self.columns = np.append(self.hashes, hashes), columns or self.columns
        if len(self.hashes) > self.most:
            kept = np.argpartition(self.hashes, self.most)[: self.most]
            self.hashes = self.hashes[kept]
            self.columns = [column[kept] for column in self.columns]

    def ordered(self) -> list[np.ndarray]:
        """The rows in order of x (and of y, …), with weights that add up to those of all."""
        order = np.lexsort(self.columns[::-1])
        columns = [column[order] for column in self.columns]
        if self.rows > self.most:
            columns[3] = columns[3] * (self.weight / np.sum(columns[3]))
        return columns


def row_hashes(columns: list[np.ndarray]) -> np.ndarray:
    """A number for each row, spread evenly (the finaliser of MurmurHash3, column by column)."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mixed = mixed ^ (column.astype(float) + 0.0).view(np.uint64)  # no −0
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(factor)
        mixed = mixed ^ (mixed >> np.uint64(33))
    return mixed
