"""Packaged weights -> what a runtime loads: an ONNX graph in int8, a tokenizer, a manifest."""
