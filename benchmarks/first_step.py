"""Loads MiniLM and trains one step."""

import ours

from adapter_bert_tf import ClassificationHead, TaskModel, create_optimizer, load_encoder

batches = ours.make_batches(ours.Case(rows=32, length=32))
model = TaskModel(load_encoder("minilm"), ClassificationHead(2))
model.compile(optimizer=create_optimizer(3e-4, 100, 10), loss=model.head.loss)
model.fit(batches.dataset(batches.by_length()), verbose=0)
