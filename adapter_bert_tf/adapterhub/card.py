"""The card of an adapter: what it is, and how to load it in both libraries."""

import json

from adapter_bert_tf.base.base import Base
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.pack.pack import Pack

_TEMPLATE = """\
---
library_name: adapters
tags:
- adapters
- bert
- {kind}
---

# {name}

A {design} adapter{size} for {base}, tuned with adapter_bert_tf.

| | |
|---|---|
| Task | {task} |
| Kind | {kind} |
| Labels | {labels} |
| Metrics | {metrics} |
| Base | {base}, fingerprint {fingerprint} |

## Load it in PyTorch

```python
from adapters import AutoAdapterModel

model = AutoAdapterModel.from_pretrained({base_code})
name = model.load_adapter("path/to/this/folder", use_safetensors=True)
model.set_active_adapters(name)
```

## Load it in TensorFlow

```python
import adapter_bert_tf as ab

ab.import_adapterhub("path/to/this/folder", bert={base_code}, output_dir={pack_code})
{use}
```
"""


def make_card(pack: Pack, base: Base, name: str) -> str:
    """Returns the card of a task pack that is exported under a name."""
    adapter = pack.adapter or AdapterConfig()
    labels = ", ".join(pack.class_names[:20]) + (" ..." if len(pack.class_names) > 20 else "")
    metrics = ", ".join(f"{metric} {value:.4f}" for metric, value in pack.metrics.items())
    has_head = pack.kind != "none"
    # As Python writes a text, whatever characters it has.
    pack_code = json.dumps(f"packs/{name}", ensure_ascii=False)
    load = f"task = ab.load_task({pack_code})"
    asked = "task.answer(question, context)" if pack.kind == "span" else "task.predict(texts)"
    return _TEMPLATE.format(
        name=name,
        design=adapter.design,
        size=f" of size {adapter.size}",
        base=base.origin,
        base_code=json.dumps(base.origin, ensure_ascii=False),
        pack_code=pack_code,
        task=_cell(pack.task or name),
        kind=pack.kind,
        labels=_cell(labels) or "-",
        metrics=metrics or "-",
        fingerprint=pack.base.get("fingerprint", "")[:12],
        use=f"{load}\n{asked}" if has_head else f"# ab.tune(..., pack={pack_code})",
    )


def _cell(text: str) -> str:
    """Returns a text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
