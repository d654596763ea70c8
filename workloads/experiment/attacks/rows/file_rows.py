"""Files in places that others may write, or read."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from workloads.experiment.attacks.stage.attack import Rows, must
from workloads.experiment.attacks.stage.target import Target

ROWS = Rows()


@ROWS.add(
    "files: links at the locks",
    "a symbolic and a hard link to another file lie where the locks are made: it is refused by "
    "name, and the file keeps what it has",
)
def _links_at_locks() -> None:
    with Target() as target:
        target.end()
        for name in ("samples.lock", "state.json.lock"):
            precious = target.folder / "authorized_keys"
            precious.write_text("a key\n")
            lock = target.folder / name
            for put in (lock.symlink_to, lock.hardlink_to):
                lock.unlink(missing_ok=True)
                put(precious)
                told = target.command("run", str(target.file))
                must(told.returncode == 1, f"{name}: {told.returncode}: {told.stderr[-300:]}")
                must(name in told.stderr, f"it says only {told.stderr[-300:]}")
                must(precious.read_text() == "a key\n", f"{name} led to another file's end")
            lock.unlink()


@ROWS.add(
    "files: folders that everybody may write to",
    "endpoint, state or socket in such a folder: run refuses it by name, check says so, and "
    "nothing is made there",
    quick=False,
)
def _shared_folders() -> None:
    """Endpoint, state and socket in a folder that everybody may write to, with and without sticky
    bit."""
    with tempfile.TemporaryDirectory(prefix="spreds-shared-") as name, Target() as target:
        target.end()
        shared = Path(name)
        places = {
            "sampling.endpoint": (f"ipc://{target.folder}/samples", f"ipc://{shared}/samples"),
            "state_file": ('"state.json"', f'"{shared}/state.json"'),
            "operators.socket": ("[operators]\n", f'[operators]\nsocket = "{shared}/socket"\n'),
        }
        text = target.file.read_text()
        for key, (old, new) in places.items():
            must(old in text, f"{old} is not in the file")
            target.file.write_text(text.replace(old, new))
            for mode in (0o777, 0o1777, 0o757):
                shared.chmod(mode)
                told = target.command("run", str(target.file))
                must(told.returncode == 1, f"{key}, {mode:o}: {told.returncode} {told.stderr}")
                must(key in told.stderr and name in told.stderr, f"it says only {told.stderr}")
                must(not list(shared.iterdir()), f"{key}: something was made in {mode:o}")
                checked = target.command("check", str(target.file), "--connect")
                must(checked.returncode == 1 and key in checked.stdout, f"check: {checked.stdout}")


@ROWS.add(
    "files: secrets that others may read",
    "token files of mode 0644, 0666, 0604, 0620, and tokens that can be guessed: refused by "
    "check and run, and never told",
    quick=False,
)
def _open_secrets() -> None:
    with Target() as target:
        target.end()
        secret = target.folder / "token"
        for mode in (0o644, 0o666, 0o604, 0o620):
            secret.chmod(mode)
            for verb in ("run", "check"):
                told = target.command(verb, str(target.file))
                must(told.returncode == 2, f"{verb} takes a token of mode {mode:o}")
                must("token_file" in told.stderr, f"it says only {told.stderr}")
                must(str(target.token) not in told.stderr, "it tells the token")
        secret.chmod(0o600)
        for weak in (16 * "a", "sixteen letters!", "0123456789abcde\x07", "short"):
            secret.write_text(weak)
            told = target.command("check", str(target.file))
            must(told.returncode == 2, f"the token {weak!r} is taken")


def _with_umask(mask: int, do: Callable[[], None]) -> None:
    before = os.umask(mask)
    try:
        do()
    finally:
        os.umask(before)


@ROWS.add(
    "files: a umask of 000",
    "the sidecar is started with it: state, history, documents and sockets are still its own "
    "user's alone",
)
def _modes() -> None:
    with Target() as target:
        target.end()
        history = target.folder / "state.json.history"  # as an older version may have left it
        history.touch()
        history.chmod(0o644)
        _with_umask(0, target.start)
        target.fill("pages")
        target.until(
            lambda: list((target.folder / "documents").rglob("*.json")), "no document was written"
        )
        for path in target.folder.rglob("*"):
            try:
                mode = stat.S_IMODE(path.lstat().st_mode)
            except FileNotFoundError:
                continue  # it was written, and has another name now
            if path.name in ("node.toml", "log") or path.is_symlink():
                continue  # the row's own
            must(not mode & 0o077, f"{path.name} has mode {mode:04o}")
