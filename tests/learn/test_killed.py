"""Training that is killed outright: what it leaves can be gone on with, and comes to the same."""

import os
import random
import shutil
import signal
import time

import pytest

from dagsched.errors import ConfigError
from dagsched.learn.run_folder import RunFolder
from dagsched.learn.trainer import Trainer
from dagsched.locks import FolderLock
from tests.learn.test_trainer import config, same, weights

TOKEN = "0123456789ab"


def half(folder):
    """A run whose folder stands as after one step of PPO."""
    trainer = Trainer(config(stages=["ppo"]), out=folder)
    assert not trainer.run(lambda: trainer.state.step == 1).finished
    return folder


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    return half(tmp_path_factory.mktemp("stopped") / "run")


@pytest.fixture
def run(stopped, tmp_path):
    shutil.copytree(stopped, tmp_path / "run")
    return tmp_path / "run"


def test_a_checkpoint_that_was_moved_aside_when_the_process_was_killed_comes_back(run):
    """Killed in between: the old one is away, the new one not yet in its place."""
    before = weights(run / "best")
    (run / "best").rename(run / f".best.{TOKEN}.old")
    (run / f".best.{TOKEN}.tmp").mkdir()
    newest = max((run / "checkpoints").iterdir())
    newest.rename(newest.with_name(f".{newest.name}.{TOKEN}.old"))
    assert Trainer(config(stages=["ppo"]), out=run, resume=True).run(lambda: True).best
    assert same(weights(run / "best"), before)
    assert newest.is_dir()
    assert not list(run.glob(".best*"))


def test_half_of_what_was_set_aside_never_becomes_the_best_model(run, monkeypatch):
    folder = RunFolder(config(stages=["ppo"]), run, resume=True)
    folder.set_aside()
    before = weights(run / "best")

    class KilledError(BaseException):
        pass

    remove = shutil.rmtree

    def kill_on_the_way(path, **options):
        if ".best_before." in path.name:
            (path / "card.json").unlink()
            raise KilledError
        remove(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr("dagsched.learn.run_folder.shutil.rmtree", kill_on_the_way)
        with pytest.raises(KilledError):
            folder.put_back()
    folder.release()
    again = RunFolder(config(stages=["ppo"]), run, resume=True)
    again.put_back()
    assert same(weights(run / "best"), before)
    assert not list(run.glob(".*.tmp"))


def test_a_run_that_was_killed_as_it_started_can_be_started(tmp_path):
    """With what describes it half-written there is no run to resume, and none that stands in the way."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "meta.json").write_text("{")
    (folder / ".lock").write_text("999999\n")
    (folder / f".config.yaml.{TOKEN}.tmp").write_text("na")
    with pytest.raises(ConfigError, match="there is no run to resume; start it without --resume"):
        Trainer(config(), out=folder, resume=True)
    trainer = Trainer(config(stages=["ppo"]), out=folder)
    assert not trainer.run(lambda: True).finished


def test_two_processes_do_not_train_in_one_folder(tmp_path):
    lock = FolderLock(tmp_path / "run")
    with pytest.raises(ConfigError, match="is writing here"):
        Trainer(config(), out=tmp_path / "run")
    lock.release()
    with pytest.raises(ConfigError):  # a mistake of the configuration locks nothing and leaves no folder
        Trainer(config(suite=str(tmp_path / "none-such.yaml")), out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_equals_one_that_is_not(tmp_path):
    """SIGKILL at random moments, then --resume, until it ends."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    Trainer(config(), out=whole).run()
    rng, kills = random.Random(0), 0
    while kills < 60:
        child = os.fork()
        if child == 0:
            try:
                there = (killed / "config.yaml").is_file()
                Trainer(config(), out=killed, resume=there).run()
                os._exit(0)
            except BaseException:  # the parent sees it as a failure
                import traceback

                traceback.print_exc()
                os._exit(1)
        deadline = time.monotonic() + rng.uniform(0.0, 0.4) * (1 + kills / 10)
        status = 0
        while time.monotonic() < deadline and os.waitpid(child, os.WNOHANG)[0] == 0:
            time.sleep(0.005)
        try:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        except (ProcessLookupError, ChildProcessError):
            break
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
        kills += 1
    assert Trainer(config(), out=killed, resume=True).run().finished
    print(f"{kills} kills")
    assert kills > 3
    assert same(weights(whole / "best"), weights(killed / "best"))
    assert same(weights(whole / "checkpoints" / "step_7"), weights(killed / "checkpoints" / "step_7"))
    for name in ("validation", "rules", "result"):
        assert (whole / f"eval/{name}.json").read_text() == (killed / f"eval/{name}.json").read_text()
    assert not [path for path in killed.rglob(".*") if path.name.endswith((".old", ".lock"))]
