"""Real data: found where it should be, with clear words where it is not."""

import numpy as np
import pytest

from stategp import data


def test_the_folder_given_and_the_environment_are_looked_into(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="the folder given"):
        data.solar(tmp_path)
    monkeypatch.setenv("STATEGP_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="STATEGP_DATA"):
        data.solar()
    (tmp_path / "solar").mkdir()
    rows = "\n".join(f"{1610.5 + i}, 0.0, {1365 + np.sin(i):.4f}" for i in range(391))
    (tmp_path / "solar" / "solar_data.txt").write_text("# comment\n" + rows)
    found = data.solar()
    assert [len(part) for part in found] == [281, 281, 110, 110]
    everything = np.concatenate([found.y_train, found.y_test])
    np.testing.assert_allclose([everything.mean(), everything.std()], [0, 1], atol=1e-12)
    assert not np.any((found.x_train > 1620) & (found.x_train < 1650))
