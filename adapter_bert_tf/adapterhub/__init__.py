"""Exchange with AdapterHub: the files of PyTorch's `adapters`, read and written without PyTorch."""
