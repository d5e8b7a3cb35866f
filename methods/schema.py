"""What a run is made of: the structured configs behind the YAML files of conf/."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING

from connectors.settings import ConnectorSettings, DecodeSettings
from corpora.settings import DatasetSettings
from methods.training.settings import TrainingSettings
from primitives.models.settings import ModelSettings

CONF_DIR = Path(__file__).resolve().parent.parent / "conf"


@dataclass
class MethodSettings:
    """Which published method the chosen drafter and verifier make up.

    Attributes:
        name: names the result folder.
        title: what tables call it.
        paper: where it was published, None for plain decoding.
    """

    name: str = MISSING
    title: str = MISSING
    paper: str | None = None


@dataclass
class DatastoreSettings:
    """The store that a retrieval drafter searches, and how it is built.

    Attributes:
        kind: "id" (the model's own greedy answers), "ood" (the reference answers of the train split) or "none".
        num_prompts: how many train prompts go in.
        max_new_tokens: longest answer kept, in tokens.
        batch_size: answers generated together while building; also the unit in which a build goes on after a stop.
        leaks: what becomes of documents that share a long passage with the test split: "drop" or "keep".
        layer: decoder layer whose input the keys are made of, 0 the first; None is the state after the last norm.
        pca_dim: width of the keys after PCA.
        index: "flat" (exact inner product), "ivf_pq", "hnsw", or "auto": flat below the PQ training minimum.
        nlist: inverted lists of an IVF-PQ index; None is 4 times the root of the number of keys.
        nprobe: inverted lists searched for a query, or candidates that the search of an HNSW graph keeps.
        m: parts that a key is quantised in; None is the largest divisor of pca_dim up to 64.
        nbits: bits of the code of a part.
        path: folder of a store built earlier; None builds or finds the one that fits in the cache.
        shards: jobs that a build is shared among.
        shard: which of them this is, counted from 0; None does all that is left and puts the store together.
    """

    kind: str = "id"
    num_prompts: int = 512
    max_new_tokens: int = 256
    batch_size: int = 32
    leaks: str = "drop"
    layer: int | None = None
    pca_dim: int = 64
    index: str = "auto"
    nlist: int | None = None
    nprobe: int = 16
    m: int | None = None
    nbits: int = 8
    path: str | None = None
    shards: int = 1
    shard: int | None = None


@dataclass
class CalibrationSettings:
    """How much `scripts.calibrate` measures; None takes what the verifier's source used. No run looks at it.

    Attributes:
        num_prompts: train prompts.
        positions: most positions looked at in one answer.
        max_new_tokens: longest answer, in tokens.
    """

    num_prompts: int | None = None
    positions: int | None = None
    max_new_tokens: int | None = None


@dataclass
class TuneSettings:
    """What `scripts.tune` searches. No run looks at it.

    Attributes:
        trials: runs of the search, those of an earlier start among them.
        space: dict; by key of a knob, [low, high] (two numbers: a range with its ends) or a list of choices.
        constraint: what must be kept: "quality" (ratio of the metric, method / plain decoding), "distinct_4" (ratio of
            the share of different 4-grams) or "identical_share" (of outputs that are plain decoding's).
        min_quality: least value of the constraint that is allowed.
        seed: of the sampler.
    """

    trials: int = 30
    space: Any = None  # a dict; typed as one, Hydra would want +tune.space=... for its first keys
    constraint: str = "quality"
    min_quality: float = 0.98
    seed: int = 0


@dataclass
class ProbeSettings:
    """What `scripts.train_semantic_probe` does for verifier `semantic`; no run looks at it.

    Attributes:
        num_prompts: train prompts.
        prefixes: most places in the target's answer to a prompt behind which segments are sampled.
        samples: segments sampled from each model behind each.
        max_new_tokens: longest answer, in tokens.
        temperature: of all sampling.
        top_p: likewise.
        equivalence: segments mean the same if a model finds that they entail each other ("nli"), or if their vectors
            have a large cosine ("embedding").
        equivalence_model: hub id or folder of the NLI model or of an encoder; None takes deberta-v2-xlarge-mnli or
            TF-IDF.
        threshold: least cosine of an embedding.
        batch_size: segments in a step of training.
        learning_rate: of Adam.
        epochs: most epochs.
        patience: epochs without a smaller error on held-out prompts after which training ends.
        validation: share of the prompts that is held out.
        seed: of sampling, initial weights and order.
    """

    num_prompts: int = 100
    prefixes: int = 4
    samples: int = 20
    max_new_tokens: int = 512
    temperature: float = 0.6
    top_p: float = 0.95
    equivalence: str = "embedding"
    equivalence_model: str | None = None
    threshold: float = 0.7
    batch_size: int = 128
    learning_rate: float = 1e-3
    epochs: int = 50
    patience: int = 5
    validation: float = 0.2
    seed: int = 0


@dataclass
class Settings:
    """Everything that decides a run.

    Attributes:
        method: what the combination of primitives is called.
        drafter: registry name under "name", and the knobs of its constructor.
        verifier: likewise.
        connector: how drafted trees are cut.
        model: the target model.
        dataset: the prompts.
        datastore: the store of a retrieval drafter; unused by the others.
        decode: how long and how to decode.
        calibration: how much is measured for a verifier with constants of the target.
        probe: how the probes of verifier `semantic` are trained.
        training: what scripts.train_eagle and scripts.train_draft do; no run looks at it.
        tune: what scripts.tune searches; no run looks at it.
        draft_model: weights of a drafter that has some: hub id, folder, .gguf file, or a name of the model group.
        device: "auto", "cpu", "cuda" or "cuda:N".
        dtype: "auto", "float32", "bfloat16" or "float16".
        mode: "measure" decodes with the model; "replay" drafts against a recording of it (`scripts.record`).
        results_dir: where result folders and logs go.
        cache_dir: where models and stores are kept; None is the user's cache folder.
        resume: keep what an earlier run of the same settings has finished.
        stop_at_first_failure: end a sweep when a job or a prompt fails; otherwise the others go on.
        record_trees: write the draft tree of every pass into samples.jsonl, for the token viewer; no figure needs it.
    """

    method: MethodSettings = MISSING
    drafter: dict[str, Any] = MISSING
    verifier: dict[str, Any] = MISSING
    connector: ConnectorSettings = MISSING
    model: ModelSettings = MISSING
    dataset: DatasetSettings = MISSING
    datastore: DatastoreSettings = MISSING
    decode: DecodeSettings = MISSING
    calibration: CalibrationSettings = MISSING
    probe: ProbeSettings = MISSING
    training: TrainingSettings = field(default_factory=TrainingSettings)
    tune: TuneSettings = field(default_factory=TuneSettings)
    draft_model: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    mode: str = "measure"
    results_dir: str = "results"
    cache_dir: str | None = None
    resume: bool = True
    stop_at_first_failure: bool = False
    record_trees: bool = True


ConfigStore.instance().store(name="settings_schema", node=Settings)
