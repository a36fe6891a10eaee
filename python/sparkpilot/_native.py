"""The native module of logs and frames, loaded by those who use it: it needs Cap'n Proto and Cairo."""
try:
    from sparkpilot import _route as route
except ImportError as _error:
    from sparkpilot._libraries import explained

    raise explained(_error) from None

__all__ = ["route"]
