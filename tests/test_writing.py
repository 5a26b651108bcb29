"""Files are there as a whole or not at all, and nothing else is changed or left behind."""

import errno
import os
import signal
import stat
import subprocess
import sys

import pytest

from stategp._runtime import _writing, replacing

WRITER = """
import runpy, sys, time
replacing = runpy.run_path(sys.argv[1])["replacing"]
with replacing(sys.argv[2]) as file:
    file.write(b"half of it")
    file.flush()
    print("writing", flush=True)
    time.sleep(600)
"""


def write(path, content=b"new"):
    with replacing(path) as file:
        file.write(content)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


def test_modes(tmp_path, umask):
    path = tmp_path / "file"
    write(path)
    assert mode(path) == 0o640  # as the umask says
    path.chmod(0o604)
    write(path, b"newer")
    assert (mode(path), path.read_bytes()) == (0o604, b"newer")


def test_a_symbolic_link_stays_one(tmp_path):
    (tmp_path / "folder").mkdir()
    real, link, second = tmp_path / "folder" / "real", tmp_path / "link", tmp_path / "second"
    link.symlink_to("folder/real")
    second.symlink_to(link)
    write(second)  # through two of them, to a file that is not there yet
    assert link.is_symlink()
    assert second.is_symlink()
    assert not real.is_symlink()
    write(link, b"newer")
    assert real.read_bytes() == b"newer"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["folder", "link", "real", "second"]
    link.unlink()
    link.symlink_to(second)  # a circle
    with pytest.raises(OSError, match="leads back to itself"):
        write(link)


def test_where_nothing_can_be_written(tmp_path):
    with pytest.raises(IsADirectoryError, match="it is a folder; give the name of a file"):
        write(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"the folder .*none does not exist"):
        write(tmp_path / "none" / "file")
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(OSError, match=r"the folder .*file does not exist"):
        write(tmp_path / "file" / "inside")


def test_a_file_that_is_write_protected(tmp_path, monkeypatch):
    protected = tmp_path / "protected"
    protected.write_bytes(b"old")
    protected.chmod(0o400)
    if os.geteuid() == 0:  # root may write anywhere: what others would be told
        monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with pytest.raises(PermissionError, match="write-protected"):
        write(protected)
    assert protected.read_bytes() == b"old"


READ_ONLY = [(errno.EROFS, "Read-only file system"), (errno.EACCES, "Permission denied")]


@pytest.mark.parametrize(("number", "words"), READ_ONLY)
def test_a_folder_that_is_read_only(tmp_path, monkeypatch, number, words):
    """Nothing can be made in it; what is there stays. (As root, a folder's mode stops nobody.)"""
    path, opened = tmp_path / "file", os.open
    path.write_bytes(b"old")

    def refused(name, flags, *mode, **more):
        if flags & os.O_CREAT and str(name).startswith(str(tmp_path)):
            raise OSError(number, words, str(name))
        return opened(name, flags, *mode, **more)

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(OSError, match=words):
        write(path)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_disk_that_is_full_on_the_way(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(path)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_an_exception_leaves_what_was_there(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def interrupted():
        with replacing(path) as file:
            file.write(b"half of it")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_devices_and_pipes_are_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write(pipe, b"through")
    assert os.read(reader, 20) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_names_of_any_length_and_kind(tmp_path):
    for name in ["x" * 250, "*?[a].stategp", "€ ß.stategp"]:
        write(tmp_path / name)
        assert (tmp_path / name).read_bytes() == b"new"


def test_killed_in_the_middle(tmp_path):
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_bytes(b"old")
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, _writing.__file__, str(path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert writer.stdout.readline() == "writing\n"

        def parts():
            return [p for p in tmp_path.iterdir() if p not in (path, other)]

        (part,) = parts()
        write(path, b"quicker")  # while the other is at work: its part stays
        assert parts() == [part]
    finally:
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
    assert path.read_bytes() == b"quicker"
    assert part.read_bytes() == b"half of it"
    write(other)  # nobody else's business
    assert parts() == [part]
    write(path, b"newest")
    assert parts() == []
    assert path.read_bytes() == b"newest"


def test_a_part_that_is_taken_for_a_leftover_is_made_again(tmp_path, monkeypatch):
    locked = _writing._locked

    def late(handle, calls=[]):  # noqa: B006
        calls.append(handle)
        if len(calls) == 1:  # another writer comes between making the part and locking it
            for part in tmp_path.iterdir():
                part.unlink()
        return False if len(calls) == 2 else locked(handle)

    monkeypatch.setattr(_writing, "_locked", late)
    write(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"new"
