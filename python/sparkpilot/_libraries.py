"""The packages of the distribution that the libraries are in, which a wheel names and does not hold."""
import importlib.metadata


def which_packages() -> str:
    try:
        names = importlib.metadata.metadata("sparkpilot").get_all("Requires-External") or []
    except importlib.metadata.PackageNotFoundError:
        names = []
    return f"install them: apt install {' '.join(names)}" if names else "docs/python.md says which"
