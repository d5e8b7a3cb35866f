"""The sweeps of the paper's tables: what they compose, against the cells of the tables; nothing is run."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from benchmarks.paper.comparison import Comparison
from benchmarks.paper.grid import THETAS, TOP_KS, WINDOWS
from benchmarks.paper.runs import MODELS, SETS, Pick
from benchmarks.paper.speed import TABLE_1, TABLE_2, TABLE_3, TABLE_4
from methods.overrides import OverrideError, check, groups
from methods.schema import CONF_DIR, Settings
from methods.settings import problems

ROOT = Path(__file__).resolve().parents[4]
# Every kind of job once: a job composes in a quarter of a second, and some sweeps have hundreds.
ONCE = ("model=smollm2-135m", "dataset=gsm8k")
CORNERS = ("verifier.theta_e=0.01,0.3", "verifier.w=5", "verifier.k=2,10")
KINDS = {
    "table1": 8,
    "table1_sps": 1,
    "table2": 1,
    "table2_eagle": 1,
    "table3": 6,
    "table4": 3,
    "table5": 4,
    "table6": 2,
    "table7": 1,
    "pareto": 9,
}
# Drafters with weights of their own, which a sweep over targets cannot name.
TRAINED = {"sps", "eagle2", "eagle3"}


@cache
def jobs_of(name: str) -> list[Settings]:
    return check([f"experiment={name}", *ONCE, *(CORNERS if name == "table5" else ())])


def params_of(name: str) -> dict[str, list[str]]:
    params: Any = OmegaConf.load(CONF_DIR / "experiment" / f"{name}.yaml").hydra.sweeper.params
    return {str(key): str(value).split(",") for key, value in params.items()}


@pytest.mark.parametrize(("name", "kinds"), KINDS.items())
def test_every_kind_of_job_composes_and_can_work(name: str, kinds: int) -> None:
    jobs = jobs_of(name)
    assert len(jobs) == kinds
    assert [problem for job in jobs for problem in problems(job)] == []
    assert {(job.model.name, job.dataset.name) for job in jobs} == {("smollm2-135m", "gsm8k")}


@pytest.mark.parametrize("name", KINDS)
def test_a_sweep_goes_over_models_and_sets_of_the_paper(name: str) -> None:
    params = params_of(name)
    assert set(params["model"]) <= set(MODELS) & set(groups()["model"])
    assert set(params["dataset"]) <= set(SETS)
    assert set(params["method"]) <= set(groups()["method"])


def test_methods_with_weights_have_sweeps_of_their_own() -> None:
    for name, method, draft in (
        ("table1_sps", "sps", "Qwen/Qwen3-0.6B"),
        ("table2_eagle", "eagle3", "AngelSlim/Qwen3-8B_eagle3"),
    ):
        (job,) = jobs_of(name)
        assert (job.method.name, job.draft_model) == (method, draft)


def test_the_search_for_the_knobs_of_se_has_a_configuration() -> None:
    (job,) = jobs_of("tune_se")
    assert job.tune.space is not None
    assert set(job.tune.space) == {f"verifier.{knob}" for knob in ("theta_e", "k", "w")}
    assert (job.tune.constraint, job.tune.min_quality) == ("quality", 0.98)
    assert problems(job) == []


@pytest.mark.parametrize("table", [TABLE_1, TABLE_2, TABLE_3, TABLE_4], ids=lambda table: table.name)
def test_a_sweep_fills_every_row_of_its_table(table: Comparison) -> None:
    def fits(pick: Pick, job: Settings) -> bool:
        # A drafter that searches no store has none, whatever the settings of the store say.
        store = None if job.drafter["name"] == "pld" else job.datastore.kind
        made_of = (job.drafter["name"], job.verifier["name"], store)
        ablated = bool(job.drafter.get("require_hit"))
        return made_of == (pick.drafter, pick.verifier, pick.store) and ablated == bool(pick.knobs)

    known = [pick for pick in table.picks if pick.drafter not in TRAINED]
    assert [pick for pick in known if not any(fits(pick, job) for job in jobs_of(table.name))] == []
    assert params_of(table.name)["dataset"] == list(table.sets)


def test_table_5_is_the_whole_grid() -> None:
    params = params_of("table5")
    grid = {"verifier.theta_e": THETAS, "verifier.w": WINDOWS, "verifier.k": TOP_KS}
    assert {key: tuple(map(float, params[key])) for key in grid} == grid


def test_the_command_line_wins_over_what_an_experiment_sweeps() -> None:
    jobs = check(["experiment=table3", "model=smollm2-135m", "dataset=triviaqa,gsm8k", "datastore=id"])
    assert [(job.model.name, job.dataset.name, job.method.name) for job in jobs] == [
        ("smollm2-135m", dataset, method)
        for dataset, method in product(("triviaqa", "gsm8k"), ("sense", "sense_without_sen", "sense_without_se"))
    ]
    assert {job.dataset.num_samples for job in jobs} == {100}


def test_one_sweep_of_its_own_at_a_time() -> None:
    with pytest.raises(OverrideError, match="experiment 'table1' is a sweep of its own"):
        check(["-m", "experiment=table1,quickstart"])
    with pytest.raises(OverrideError, match="method is chosen 2 times"):
        check(["experiment=table1", "method=pld", "method=rest"])


def test_hydra_runs_the_same_jobs_in_the_same_order(tmp_path: Path) -> None:
    """Hydra itself, with a job that tells its settings."""
    program = tmp_path / "jobs.py"
    program.write_text(
        "import hydra\n"
        "from methods.schema import CONF_DIR\n"
        "def job(c):\n"
        "    print('JOB', c.model.name, c.dataset.name, c.datastore.kind, c.method.name, c.dataset.num_samples)\n"
        "hydra.main(version_base='1.3', config_path=str(CONF_DIR), config_name='config')(job)()\n",
        encoding="utf-8",
    )
    words = ["experiment=table1", "model=smollm2-135m", "dataset=triviaqa", "method=pld,sense", "results_dir=out"]
    command = [sys.executable, str(program), *words]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    ran = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("JOB")]
    assert len(ran) == 4
    assert ran == [
        [job.model.name, job.dataset.name, job.datastore.kind, job.method.name, str(job.dataset.num_samples)]
        for job in check(words)
    ]
