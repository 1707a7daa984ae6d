"""Models and their training outside Python: ONNX files, and C for small devices."""
