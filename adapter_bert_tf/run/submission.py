"""GLUE's submission files."""

import numpy as np

from adapter_bert_tf.data.task import CLASSIFICATION, Task
from adapter_bert_tf.run.folder import RunFolder

# The range of STS-B's scores.
_LOWEST, _HIGHEST = 0.0, 5.0


def write_submission(folder: RunFolder, task: Task, split: str, outputs: np.ndarray) -> None:
    """Writes a test set's predictions as the GLUE site takes them."""
    if task.kind == CLASSIFICATION:
        predictions = [task.labels[number] for number in np.argmax(outputs, axis=-1)]
    else:
        predictions = [f"{value:.3f}" for value in np.clip(outputs, _LOWEST, _HIGHEST)]
    lines = [f"{row}\t{prediction}\n" for row, prediction in enumerate(predictions)]
    folder.write(task.submission[split], "index\tprediction\n" + "".join(lines))
