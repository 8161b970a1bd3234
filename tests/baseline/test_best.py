from adapter_bert_tf.baseline.best import BEST
from adapter_bert_tf.baseline.space import Design
from adapter_bert_tf.experiment import paper


def test_all_tasks_have_the_papers_best_model():
    assert BEST.keys() == paper.ADDITIONAL.keys()
    modules = [design.module for design in BEST.values()]
    assert [modules.count(each) for each in ("use", "nnlm-128", "nnlm-50", "wiki-250")] == [
        *(8, 7, 1, 1),
    ]


def test_the_fields_are_in_the_papers_order():
    assert BEST["disasters"] == Design(
        module="use",
        fine_tune=True,
        lower_case=True,
        letters_only=False,
        convolution=True,
        convolution_activation="swish",
        convolution_batch_norm=True,
        longest_ngram=3,
        convolution_dropout=0.27,
        filters=52,
        embedding_dropout=0.22,
        hidden_layers=0,
        hidden_size=64,
        hidden_activation="relu",
        hidden_norm="none",
        hidden_dropout=0.2,
        deep_rate=0.005,
        deep_regularization=1e-4,
        wide_rate=0.005,
        wide_regularization=0.01,
        samples=500_000,
    )
