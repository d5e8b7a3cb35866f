"""What lossy verifiers know of a target: measured by `scripts.calibrate`, kept in the cache, used by every run.

`files` finds and checks the constants before a model is loaded; `stage` measures them; one module a verifier says how.
"""
