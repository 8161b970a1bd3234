"""Tunes BERT for a classification or regression task, scores it and predicts with it."""

from adapter_bert_tf.run_classifier import main

if __name__ == "__main__":
    main()
