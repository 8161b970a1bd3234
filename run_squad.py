"""Tunes BERT to answer questions about texts, as SQuAD asks them, and scores the answers."""

from adapter_bert_tf.run_squad import main

if __name__ == "__main__":
    main()
