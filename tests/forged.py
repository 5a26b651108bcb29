"""Files taken apart and put together again, with anything in them."""

import hashlib
import json
from pathlib import Path

import safetensors
import safetensors.numpy

from stategp._files._registry import FORMAT

FILES = Path(__file__).parent / "files"
SAVED = sorted(FILES.glob("format-*/*.stategp"))


def content(path):
    """The description in a file, as text, and its arrays."""
    with safetensors.safe_open(path, framework="numpy") as file:
        entry = json.loads(file.metadata()["stategp"])
        return entry["content"], {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def forge(path, text, tensors=None):
    """A file with any description, which its checksum fits."""
    tensors = tensors or {}
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    entry = json.dumps({"format": FORMAT, "sha256": digest.hexdigest(), "content": text})
    path.write_bytes(safetensors.numpy.save(tensors, metadata={"stategp": entry}))
    return path


def described(tree, version=FORMAT, **more):
    return json.dumps({"format": version, "tree": tree} | more)
