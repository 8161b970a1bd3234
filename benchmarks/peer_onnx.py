"""Six tasks with ONNX Runtime: a session for each."""

import os
import tempfile

import onnx_model
import peer_batches

model = peer_batches.make_model()
sessions = {}
with tempfile.TemporaryDirectory() as folder:
    for task in peer_batches.TASKS:
        model.set_active_adapters(task)
        model.active_head = task
        path = os.path.join(folder, f"{task}.onnx")
        onnx_model.export(model, path)
        sessions[task] = onnx_model.load(path)

peer_batches.serve(lambda task, inputs: onnx_model.run(sessions[task], inputs))
