# SPDX-License-Identifier: GPL-2.0-only
"""Configuring, building and caching the guest kernel."""
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from kernel import patching, source as sources
from kernel.source import KernelError

_HERE = pathlib.Path(__file__).parent
_CONFIG = _HERE / "uml.config"
#: compiler calls and the like of a trimmed build, for the progress shown
_ABOUT_STEPS = 1250
#: options that are called something else in some kernels, or cannot be chosen without a patch
_MAY_DIFFER = {"CONFIG_HZ=1000", "CONFIG_DEFAULT_RENO=y", "CONFIG_PROC_SYSCTL=y", "CONFIG_SYSCTL=y"}
#: the banner of a kernel ends up in its random number generator: the same for every build
_BUILD_ENVIRONMENT = {"KBUILD_BUILD_TIMESTAMP": "2024-11-17", "KBUILD_BUILD_USER": "testbed",
                      "KBUILD_BUILD_HOST": "testbed", "KBUILD_BUILD_VERSION": "1"}


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A built guest kernel."""
    program: pathlib.Path        # the `linux` executable
    source_dir: pathlib.Path
    build_dir: pathlib.Path
    release: str
    source: str
    key: str
    config_sha256: str
    congestion_controls: tuple
    features: frozenset = frozenset()     # "seccomp": it can run its user space without ptrace


def find(spec=None):
    """The built kernel for `spec` if it is in the cache, else None."""
    try:
        name, identity = sources.identify(spec)
        return _load(build_dir(spec, identity), name)
    except KernelError:
        return None


def ensure(spec=None, report=print):
    """The kernel for `spec`, built if need be (some minutes). Raises KernelError.

    report(text) is called with what is being done.
    """
    spec = sources.resolve(spec, report)
    built = find(spec)
    if built:
        _note_use(built)
        return built
    sources.look_up(spec, report)
    name, identity = sources.identify(spec)
    target = build_dir(spec, identity)
    missing = sources.missing_tools()
    if missing:
        raise KernelError(f"to build a kernel, first: apt-get install {' '.join(p for _, p in missing)}")
    with lock():
        built = _load(target, name)            # somebody else may have built it meanwhile
        if built:
            return built
        source_dir = _source_dir(spec, identity)
        if not source_dir.is_dir():
            source_dir.parent.mkdir(parents=True, exist_ok=True)
            fresh = source_dir.with_name(source_dir.name + ".unpatched")
            shutil.rmtree(fresh, ignore_errors=True)
            sources.fetch(spec, fresh, report)
            patching.put_all(fresh, report)
            os.replace(fresh, source_dir)
        _build(source_dir, target, report)
        report("booting it once")
        _describe(source_dir, target)
    return _load(target, name)


def build_dir(spec, identity):
    """Where the build of `spec`, which has this identity, is or will be."""
    return build_dir_of(identity, sources.version_of(spec))


def build_dir_of(identity, version):
    """A build is known by its source, configuration, patches and compiler."""
    compiler = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True).stdout \
        if shutil.which("gcc") else ""
    key = hashlib.sha256("\0".join([identity, _CONFIG.read_text(), patching.digest(version), compiler]).encode())
    return sources.cache_dir() / "kernels" / f"{identity}-{key.hexdigest()[:12]}"


def _source_dir(spec, identity):
    """A patched tree is known by its source and patches."""
    return sources.cache_dir() / "sources" / f"{identity}-{patching.digest(sources.version_of(spec))[:8]}"


def _load(build_dir, name):
    try:
        facts = json.loads((build_dir / "testbed.json").read_text())
    except FileNotFoundError:
        return None
    return Kernel(program=build_dir / "linux", source_dir=pathlib.Path(facts["source_dir"]), build_dir=build_dir,
                  release=facts["release"], source=name, key=build_dir.name,
                  config_sha256=facts["config_sha256"], congestion_controls=tuple(facts["congestion_controls"]),
                  features=frozenset(facts.get("features", ())))


def _note_use(built):
    """For kernel/pruning.py: when a kernel was last wanted."""
    try:
        os.utime(built.build_dir / "testbed.json")
    except OSError:
        pass                                      # somebody else's cache


@contextlib.contextmanager
def lock():
    """One build at a time per cache."""
    sources.cache_dir().mkdir(parents=True, exist_ok=True)
    with open(sources.cache_dir() / "lock", "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def make_command(source_dir, build_dir):
    """make for a guest kernel, to be followed by its target."""
    return ["make", "-C", str(source_dir), f"O={build_dir}", "ARCH=um"]


def make_environment():
    """Environment of a kernel build: nothing of the user's but where programs are."""
    keep = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "TMPDIR")}
    return {**keep, "LC_ALL": "C", **_BUILD_ENVIRONMENT}


def _build(source_dir, build_dir, report):
    build_dir.mkdir(parents=True, exist_ok=True)
    log_path = build_dir / "build.log"
    make = make_command(source_dir, build_dir)
    with open(log_path, "w") as log:
        configured = subprocess.run(make + ["allnoconfig", f"KCONFIG_ALLCONFIG={_CONFIG}"], stdout=log,
                                    stderr=subprocess.STDOUT, env=make_environment())
    if configured.returncode:
        raise KernelError(f"configuring failed, see {log_path}")
    _check_config(build_dir / ".config", report)
    process = subprocess.Popen(make + [f"-j{os.cpu_count()}", "all"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", env=make_environment())
    steps = 0
    try:
        with open(log_path, "a") as log:
            for line in process.stdout:
                log.write(line)
                if re.match(r"  [A-Z]{2,}", line):
                    steps += 1
                    if steps % 25 == 0:
                        report(f"building: {min(99, 100 * steps // _ABOUT_STEPS)} % ({line.split()[-1]})")
    except BaseException:
        process.terminate()
        raise
    finally:
        process.wait()
    if process.returncode:
        errors = [l for l in log_path.read_text().splitlines() if "error" in l.lower()][:5]
        raise KernelError("the kernel does not build; the log is " + str(log_path) + "".join("\n  " + e for e in errors))


def _check_config(config, report):
    """Options that the fragment asks for and this kernel did not take are an error."""
    text = config.read_text()
    have = set(text.splitlines())
    known = set(re.findall(r"^(?:# )?(CONFIG_\w+)(?:=| is not set)", text, re.M))
    wanted = [l for l in _CONFIG.read_text().splitlines() if l.startswith("CONFIG_")]
    missing = [l for l in wanted if l not in have and l not in _MAY_DIFFER]
    refused = [l for l in missing if l.partition("=")[0] in known]
    if refused:
        raise KernelError(f"this kernel refuses {', '.join(refused)}")
    if missing:
        # older or newer than the fragment
        report(f"this kernel has no {', '.join(l.partition('=')[0] for l in missing)}: built without")


def _describe(source_dir, build_dir):
    """Boot the kernel once: it works, and says what congestion controls it has."""
    config = (build_dir / ".config").read_bytes()
    with tempfile.TemporaryDirectory(prefix="testbed-uml-") as scratch:
        done = subprocess.run(
            ["setarch", "-R", str(build_dir / "linux"), "mem=64M", "root=none", "rootfstype=hostfs", "rootflags=/", "ro",
             "time-travel=inf-cpu", "quiet", "con=null", "con0=null,fd:2", f"uml_dir={scratch}", "umid=probe",
             "init=/usr/bin/python3", "--", "-I", "-S", str(_HERE / "first_boot.py")],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    match = re.search(r"^release (\S+)\ncongestion controls (.+)$", done.stdout + done.stderr, re.M)
    if not match:
        raise KernelError("the kernel was built but does not boot:\n" + (done.stdout + done.stderr).strip()[-2000:])
    facts = {"release": match.group(1), "congestion_controls": sorted(match.group(2).split()),
             "features": _features(build_dir / "linux"),
             "config_sha256": hashlib.sha256(config).hexdigest(), "source_dir": str(source_dir)}
    temporary = build_dir / "testbed.json.part"
    temporary.write_text(json.dumps(facts, indent=1))
    os.replace(temporary, build_dir / "testbed.json")


def _features(program):
    """What engines may want to know of a kernel, from the list of its command-line options."""
    options = subprocess.run([program, "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return ["seccomp"] if re.search(r"^seccomp=", options.stdout + options.stderr, re.M) else []
