"""The cache of compiled programs: JAX's entries are kept few, and nothing else is touched."""

import os
import subprocess
import sys
import types

from stategp._runtime import _compilation


def entry(folder, name, size, age):
    path = folder / f"jit_{name}-{'0f' * 32}-cache"
    path.write_bytes(bytes(size))
    os.utime(path, (1e9 - age, 1e9 - age))
    return path


def test_over_the_limit_the_oldest_entries_go_and_nothing_else(tmp_path):
    others = [tmp_path / name for name in ("thesis.tex", "notes-cache", "model.stategp")]
    for path in others:
        path.write_bytes(bytes(5000))
        os.utime(path, (1, 1))  # older than any entry
    (tmp_path / f"jit_folder-{'0f' * 32}-cache").mkdir()
    (tmp_path / f"jit_link-{'0f' * 32}-cache").symlink_to(others[0])
    entries = [entry(tmp_path, f"program_{age}", 300, age) for age in range(5)]
    before = sorted(tmp_path.iterdir())
    _compilation._forget_the_oldest(tmp_path, most=1500)  # others do not count
    assert sorted(tmp_path.iterdir()) == before
    _compilation._forget_the_oldest(tmp_path, most=1400)
    left = [path for path in entries if path.exists()]
    assert left == entries[:2]  # at most half of the limit, the newest of them
    assert all(path.read_bytes() == bytes(5000) for path in others)
    assert sorted(tmp_path.iterdir()) == sorted({*before} - {*entries[2:]})


def test_import_leaves_the_files_of_others_alone(tmp_path, monkeypatch):
    entry(tmp_path, "program", 3000, 0)
    (tmp_path / "precious").write_bytes(bytes(3000))
    monkeypatch.setattr(_compilation, "_MOST", 10)
    monkeypatch.setenv("STATEGP_CACHE", str(tmp_path))
    without = types.SimpleNamespace(values={}, update=lambda *setting: None)  # no folder is set
    monkeypatch.setattr(_compilation, "jax", types.SimpleNamespace(config=without))
    assert _compilation.keep_compiled_programs() == tmp_path
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_jax_names_its_entries_as_we_think(tmp_path):
    code = (
        "import sys, jax\n"
        "jax.config.update('jax_compilation_cache_dir', sys.argv[1])\n"
        "jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)\n"
        "jax.jit(lambda x: x + 1)(1.0)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    names = [path.name for path in tmp_path.iterdir()]
    assert any(name.endswith("-cache") for name in names)
    assert all(_compilation._ENTRY.fullmatch(name) for name in names)
