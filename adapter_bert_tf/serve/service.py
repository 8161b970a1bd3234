"""What an export serves: a base and the tasks on it."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from adapter_bert_tf.base.base import Base, digest_of
from adapter_bert_tf.base.load import check_sizes, make_encoder
from adapter_bert_tf.base.names import google_names
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.encoder.encoder import AdapterBertEncoder
from adapter_bert_tf.encoder.variables import (
    is_adapter,
    is_layer_norm,
    layer_of,
    variables_by_path,
)
from adapter_bert_tf.errors import UserError, some
from adapter_bert_tf.heads.head import Head
from adapter_bert_tf.heads.kinds import HEADS
from adapter_bert_tf.heads.text import TextForm, TextHead
from adapter_bert_tf.pack.model import load_pack
from adapter_bert_tf.pack.pack import Pack, read_pack, refuse_no_head
from adapter_bert_tf.serve.plan import name_packs
from adapter_bert_tf.squad.windows import WindowSizes
from adapter_bert_tf.text.tokenizer import Vocabulary

_DEFAULT_LENGTH = 128


@dataclasses.dataclass(frozen=True)
class ServedTask:
    """A task pack that is served.

    Args:
      name: The name by which requests ask for it.
      pack: The description of the pack.
      tensors: The values of its variables by path.
      dropped_layers: Number of the lowest layers that it leaves to the base, although the pack has
        values for them.
    """

    name: str
    pack: Pack
    tensors: dict[str, np.ndarray]
    dropped_layers: int = 0

    @property
    def head(self) -> type[Head]:
        """The class of its head."""
        return HEADS[self.pack.kind]

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of its classes. Tasks of other kinds have none."""
        return self.pack.class_names

    @property
    def pair(self) -> bool:
        """Whether its rows are pairs of texts."""
        return bool(self.pack.inputs.get("pair", False))

    @property
    def max_seq_length(self) -> int:
        """Longest row, in tokens."""
        if self.asks:
            return WindowSizes.of(self.pack.inputs).max_seq_length
        return int(self.pack.inputs.get("max_seq_length", _DEFAULT_LENGTH))

    @property
    def asks(self) -> bool:
        """Whether it answers questions about texts, instead of classifying texts."""
        return self.head.signature != Head.signature

    def without_lowest(self, layers: int) -> "ServedTask":
        """Returns the task with the base's own lowest layers: see `tuning/adapter_drop.py`.

        The LayerNorm of the embeddings, which stands below them, is then the base's too.
        """
        if layers and self.changes_base():
            raise UserError(f"--drop_layers={layers}: {self.name} changes the base itself")
        kept = {
            path: value
            for path, value in self.tensors.items()
            if path.startswith("head/") or (layer_of(path) or 0) >= layers
        }
        if len(kept) == len(self.tensors):
            return self
        adapter = self.pack.adapter
        if adapter:
            adapted = {layer_of(path) or 0 for path in kept if is_adapter(path)}
            adapter = dataclasses.replace(adapter, layers=tuple(adapted))
        pack = dataclasses.replace(self.pack, adapter=adapter, variables=sorted(kept))
        return dataclasses.replace(self, pack=pack, tensors=kept, dropped_layers=layers)

    def changes_base(self) -> bool:
        """Returns whether it changes more of the base than the LayerNorms."""
        own = (path for path in self.pack.variables if not path.startswith("head/"))
        return not all(is_layer_norm(path) or is_adapter(path) for path in own)


@dataclasses.dataclass(frozen=True)
class Service:
    """A base and the tasks on it.

    Args:
      base: The origin, the sizes and the vocabulary of the base.
      values: The values of the base's variables by path.
      tasks: The tasks. A task's number is its place here.
    """

    base: Base
    values: dict[str, np.ndarray]
    tasks: tuple[ServedTask, ...]

    def __post_init__(self):
        names = [task.name for task in self.tasks]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise UserError(f"--packs: several tasks are called {some(twice)}; rename a folder")
        for task in self.tasks:
            self._check(task)

    def _check(self, task: ServedTask) -> None:
        if len(self.tasks) > 1:
            _refuse_changed_base(task)
        longest = self.base.config.max_sequence_length
        if not 3 <= task.max_seq_length <= longest:
            raise UserError(
                f"{task.name}: max_seq_length is {task.max_seq_length}, the base takes {longest}"
            )

    @property
    def vocabulary(self) -> Vocabulary:
        """The base's vocabulary."""
        if self.base.vocabulary is None:
            raise UserError(f"{self.base.origin}: no vocab.txt beside it; give --vocab_file")
        return self.base.vocabulary

    def label_table(self) -> np.ndarray:
        """Returns the labels of each task, `[tasks, labels]`, filled up with ""."""
        most = max(1, *(len(task.labels) for task in self.tasks))
        rows = [[*task.labels, *[""] * (most - len(task.labels))] for task in self.tasks]
        return np.array(rows, dtype=str).reshape(len(rows), most)

    def adapter_forms(self) -> tuple[list[AdapterConfig], list[int]]:
        """Returns the forms of the tasks' adapters, and which of them each task has.

        A task without adapters has any form: its adapters are zeros.
        """
        of_tasks = [task.pack.adapter and task.pack.adapter.form() for task in self.tasks]
        forms = list(dict.fromkeys(form for form in of_tasks if form))
        return forms, [forms.index(form) if form else 0 for form in of_tasks]

    def first_points(self) -> list[int]:
        """Returns the first point at which each task differs from the base: see `Forks`."""
        heads = self.base.config.num_layers + 1
        return [
            min((_point(path) for path in task.tensors if self._changes(task, path)), default=heads)
            for task in self.tasks
        ]

    def _changes(self, task: ServedTask, path: str) -> bool:
        """Whether a task computes something else than the base because of a variable."""
        if is_adapter(path):
            # An adapter whose last product is 0 adds nothing.
            return "/up/" in path and bool(task.tensors[path].any())
        return is_layer_norm(path) and not np.array_equal(task.tensors[path], self.values[path])

    def head_forms(self) -> tuple[list[TextForm], list[int]]:
        """Returns the forms of the heads on texts, and which of them each task has."""
        heads = [task.pack.make_head() for task in self.tasks]
        of_tasks = [head.form if isinstance(head, TextHead) else TextForm() for head in heads]
        forms = list(dict.fromkeys(of_tasks))
        return forms, [forms.index(form) for form in of_tasks]

    def adapter_places(self) -> AdapterConfig | None:
        """Returns a configuration with all layers and sites at which some task has an adapter."""
        adapters = [task.pack.adapter for task in self.tasks if task.pack.adapter]
        if not adapters:
            return None
        layers = self.base.config.num_layers
        return AdapterConfig(
            sites=tuple({site for adapter in adapters for site in adapter.sites}),
            layers=tuple({i for adapter in adapters for i in adapter.in_layers(layers)}),
        )


def _point(path: str) -> int:
    """Returns the point of a variable of the encoder, as `Forks` counts them."""
    layer = layer_of(path)
    return 0 if layer is None else layer + 1


def _refuse_changed_base(task: ServedTask) -> None:
    if task.changes_base():
        raise UserError(
            f"{task.name}: its tuning ({task.pack.tuning.method}) changes the base, so it "
            "can't share one; export it alone"
        )


def check_base(base: Base, tasks: Sequence[ServedTask], where: str) -> None:
    """Refuses the base of an export, as it was read again, if its tasks were tuned on another."""
    tensors = dict(base.read())
    check_sizes(base, tensors)
    left = tensors.keys() - set(google_names(base.config.num_layers).values())
    if left:
        raise UserError(f"{where}: does not fit num_layers; left over: {some(left)}")
    base.digests |= {path: digest_of(array) for path, array in tensors.items()}
    for task in tasks:
        if not task.changes_base() and task.pack.base["fingerprint"] != base.fingerprint:
            raise UserError(f"{where}: {task.name} was tuned on another base than the one there")
        if task.pack.vocabulary not in (None, base.vocabulary and base.vocabulary.describe()):
            raise UserError(f"{where}: {task.name} was tuned with another vocabulary")


def read_service(
    base: Base,
    folders: Sequence[str],
    before: Sequence[ServedTask] = (),
    drop_layers: int = 0,
) -> Service:
    """Reads task packs onto the base that they were tuned on.

    Args:
      base: The base, from `find_base`.
      folders: The packs' folders.
      before: Tasks of an earlier export, to which the packs are added. A pack of a task that is
        there replaces it.
      drop_layers: Number of the lowest layers that the packs leave to the base.
    """
    if not 0 <= drop_layers <= base.config.num_layers:
        raise UserError(
            f"--drop_layers={drop_layers}: expected 0 to {base.config.num_layers}, "
            "the number of layers of the base"
        )
    if folders:
        for task in before:
            _refuse_changed_base(task)
    named = name_packs(folders, {task.name: task.pack.task for task in before})
    encoders: dict[AdapterConfig | None, AdapterBertEncoder] = {}
    values: dict[str, np.ndarray] = {}
    tasks = [task for task in before if task.name not in named]
    for name, folder in named.items():
        pack = read_pack(folder)
        refuse_no_head(pack, folder)
        design = pack.adapter and dataclasses.replace(pack.adapter, init_scale=0.0)
        if design not in encoders:
            encoders[design] = make_encoder(base, design)
        if not values:
            found = variables_by_path(encoders[design]).items()
            values = {path: variable.numpy() for path, variable in found if not is_adapter(path)}
        # Loading the pack onto an encoder checks that it fits the base.
        variables = load_pack(encoders[design], folder).variables_by_path()
        tensors = {path: variables[path].numpy() for path in pack.variables}
        tasks.append(ServedTask(name, pack, tensors).without_lowest(drop_layers))
        if tasks[-1].changes_base():
            values |= {path: tensors[path] for path in tensors.keys() & values.keys()}
    return Service(base, values or dict(base.read()), tuple(tasks))
