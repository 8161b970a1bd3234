"""A worker: the same model in Hugging Face `adapters`. Its argument is a `Case`."""

import os

import adapters
import torch
import transformers
from pipe import serve
from sizes import Case


def make_model(case: Case) -> torch.nn.Module:
    config = transformers.BertConfig(
        vocab_size=case.words,
        hidden_size=case.width,
        num_hidden_layers=case.layers,
        num_attention_heads=case.heads,
        intermediate_size=4 * case.width,
        hidden_act="gelu" if case.erf else "gelu_pytorch_tanh",
    )
    model = transformers.BertForSequenceClassification(config)
    adapters.init(model)
    # Houlsby's two adapters for a layer, as ours: see REFERENCE.md.
    bottleneck = adapters.DoubleSeqBnConfig(
        reduction_factor=case.width / case.adapter, non_linearity="gelu_pytorch_tanh"
    )
    model.add_adapter("task", config=bottleneck)
    model.train_adapter("task")
    model.set_active_adapters("task")
    # The paper trains the LayerNorms too; the library does not by itself.
    for name, parameter in model.named_parameters():
        if "LayerNorm" in name:
            parameter.requires_grad = True
    return model


def main() -> None:
    case = Case.from_argument()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    model = make_model(case)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, weight_decay=0.01, fused=True)
    ids = torch.randint(1000, case.words, (case.rows, case.length))
    inputs = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "token_type_ids": torch.zeros_like(ids),
    }
    labels = torch.arange(case.rows) % 2

    def step() -> float:
        model.train()
        loss = model(**inputs, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    def forward() -> torch.Tensor:
        model.eval()
        with torch.no_grad():
            return model(**inputs).logits

    serve(
        {"step": step, "forward": forward}, trained=sum(parameter.numel() for parameter in trained)
    )


if __name__ == "__main__":
    main()
