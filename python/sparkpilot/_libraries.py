"""The packages of the distribution that the libraries are in, which a wheel names and does not hold."""
import importlib.metadata


def explained(error: ImportError) -> ImportError:
    """The error of a native module that cannot be loaded; if a library is missing, with what to install."""
    if "cannot open shared object file" not in str(error):
        return error
    return ImportError(f"{error}: sparkpilot uses libraries of the distribution; {which_packages()}")


def which_packages() -> str:
    try:
        names = importlib.metadata.metadata("sparkpilot").get_all("Requires-External") or []
    except importlib.metadata.PackageNotFoundError:
        names = []
    return f"install them: apt install {' '.join(names)}" if names else "docs/python.md says which"
