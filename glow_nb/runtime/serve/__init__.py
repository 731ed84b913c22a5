"""Networks over HTTP by the Open Inference Protocol v2; needs the extra ``[serve]``."""
