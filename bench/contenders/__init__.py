"""Each does the same 20 steps (a model, then a tool, ten times; 500 bytes each, no latency) or the same bare saves."""
