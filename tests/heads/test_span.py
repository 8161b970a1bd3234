import numpy as np
from scipy.special import log_softmax

from adapter_bert_tf import SpanHead
from tests.heads.encoded import LENGTH, encoded

# Positions of start and end; the last row has two tokens of padding.
LABELS = np.array([[0, 3], [8, 8], [2, 1], [5, 6]])


def test_is_the_mean_of_start_and_end():
    head = SpanHead()
    logits = head(encoded()).numpy()
    assert logits.shape == (4, LENGTH, 2)
    rows = np.arange(4)
    start = log_softmax(logits[..., 0], axis=-1)[rows, LABELS[:, 0]]
    end = log_softmax(logits[..., 1], axis=-1)[rows, LABELS[:, 1]]
    np.testing.assert_allclose(head.loss(LABELS, logits), -(start + end) / 2, atol=1e-6)


def test_padding_changes_neither_logits_nor_loss():
    head = SpanHead()
    logits, padded = head(encoded()), head(encoded(length=LENGTH + 5))
    np.testing.assert_allclose(padded[:, :LENGTH], logits, atol=1e-6)
    lowest = np.finfo(np.float32).min
    assert (padded.numpy()[:, LENGTH:] == lowest).all()
    assert (logits.numpy()[-1, -2:] == lowest).all()
    losses = head.loss(LABELS, logits).numpy()
    assert np.isfinite(losses).all()
    np.testing.assert_allclose(head.loss(LABELS, padded), losses, atol=1e-6)
